"""What does it cost to consume a million overdue values, or to let them drip?

A new trigger on a table with history, every row overdue: the save itself, the rounds that follow
until the walk has passed all rows, a helping of the drip, and the save that ends it. Beside them
the same rounds where everything fires.
"""

from datetime import timedelta
from time import perf_counter

from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_records, add_table, date_trigger
from benchmarks.measure.servers import running_database
from shared.db.clock import server_now
from shared.domain.on_existing import FIRE, OnExisting
from shared.usecases.due_pass import due_pass
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tick import round_of_ticks

CHOICES = {
    "fire": FIRE,
    "consume": OnExisting(mode="consume"),
    "drip": OnExisting(mode="drip", per_minute=1000),
}


def main():
    """Take one way after the other, and print one table."""
    options = read_options(__doc__, sizes={"records": (50_000, 1_000_000)})
    rows = []
    for name, choice in CHOICES.items():
        with running_database() as database:
            rows += measure(database, name, choice, options.records)
    report("on_existing", f"{options.records:,} overdue rows", rows, options=options)


def measure(database, name, choice, records):
    """Return the rows of one choice."""
    conn = database.conn
    table = add_table(conn)
    add_records(conn, table, records, first=server_now(conn) - timedelta(days=400), step_seconds=1)
    database.settle()
    parts = {"save": lambda: _save(conn, table, [date_trigger()], choice)}
    parts["rounds"] = lambda: [None for _ in round_of_ticks(conn, announced=True)]
    if name == "drip":
        later = server_now(conn) + timedelta(minutes=2)
        parts["helping of 1000"] = lambda: due_pass(conn, announced=True, now=later)
        parts["save that ends it"] = lambda: _save(conn, table, [], FIRE)
    return [_row(f"{name}: {part}", _seconds(work), records) for part, work in parts.items()]


def _save(conn, table, triggers, choice):
    set_triggers(
        conn,
        table.id,
        triggers,
        now=server_now(conn),
        on_existing=choice,
        check_actions=lambda *_raw, **_rest: [],
    )


def _seconds(work):
    began = perf_counter()
    work()
    return perf_counter() - began


def _row(name, seconds, records):
    each = rounded(seconds / records * 1e6) if name.endswith("rounds") else None
    return {"what": name, "s": rounded(seconds), "µs a row": each}


if __name__ == "__main__":
    main()
