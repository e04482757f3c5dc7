"""How fast does a table's work come into being when thousands of its rows come due at once?

Runs with their ledger rows, by a round of ticks and by the due pass, beside two bare statements:
one inserts as many runs and nothing else, the other their ledger rows too. The memory of the
process must not grow with what is due.
"""

from datetime import timedelta

import psutil

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import (
    add_due_records,
    add_records,
    add_table,
    catch_up,
    date_trigger,
)
from benchmarks.measure.servers import running_database
from benchmarks.measure.turns import Side, in_turns
from shared.db.clock import server_now
from shared.queries.definitions import store_definition
from shared.usecases.due_pass import due_pass
from shared.usecases.tick import round_of_ticks

ROUNDS = 7
DEFINITION = {"v": 1, "trigger": {"name": "", "actions": []}, "columns": []}
HASH = bytes(32)

# As many runs, with the same columns into the same indexes: no evaluation, no ledger, no cursor.
RUNS = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, trigger_ref, kind, record_id, identity, scheduled_for,
    definition_hash, snapshot, announcements, next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    record.tenant_id,
    record.table_id,
    state.trigger_id,
    state.id,
    'date_column_reached',
    record.id,
    record.data ->> 'c2',
    %(now)s,
    %(hash)s,
    record.data,
    1,
    %(now)s,
    %(now)s::timestamptz + interval '60 s',
    %(now)s,
    %(now)s
FROM record
JOIN trigger_state AS state ON state.table_id = record.table_id
WHERE record.table_id = %(table_id)s
"""
# The same, after their ledger rows.
_LEDGER = """
WITH ledger AS (
    INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
    SELECT state.id, record.id, record.data ->> 'c2', true, %(now)s
    FROM record
    JOIN trigger_state AS state ON state.table_id = record.table_id
    WHERE record.table_id = %(table_id)s
)
"""
LEDGER_AND_RUNS = _LEDGER + RUNS


def main():
    """Measure the three ways in turns, then memory, and print one table."""
    options = read_options(__doc__, sizes={"due": (10_000, 10_000), "flood": (50_000, 200_000)})
    with running_database() as database:
        figures = measure(database, options.due)
        memory = [(due, grown_mib(database, due)) for due in (options.due, options.flood)]
    with_ledger, bare = figures[-2:]
    rows = [
        {
            "runs made by": figure.name,
            "runs/s": round(figure.units_per_second),
            "of bare": rounded(bare.turn_seconds / figure.turn_seconds),
            "of bare with ledger": rounded(with_ledger.turn_seconds / figure.turn_seconds),
            "CPU µs each": rounded(figure.cpu_unit_us),
            "MiB grown": None,
        }
        for figure in figures
    ]
    rows += [
        {
            "runs made by": f"a round, {due:,} due",
            "runs/s": None,
            "of bare": None,
            "of bare with ledger": None,
            "CPU µs each": None,
            "MiB grown": rounded(mib),
        }
        for due, mib in memory
    ]
    report("tick", f"{options.due:,} rows of one table come due", rows, options=options)


def measure(database, due):
    """Return the figures of a round of ticks, of due passes, and of the bare statement."""
    conn = database.conn
    way = Way(database, due)

    def ticks():
        return sum(tick.runs_created for tick in round_of_ticks(conn, announced=True))

    def passes():
        made = 0
        more = True
        while more:
            done = due_pass(conn, announced=True)
            made += len(done.references)
            more = done.more
        return made

    def bare(statement):
        parameters = {"table_id": way.table.id, "hash": HASH, "now": server_now(conn)}
        return conn.execute(statement, parameters).rowcount

    return in_turns(
        [
            Side(name="a round of ticks", work=ticks, prepare=way.come_due),
            Side(name="due passes", work=passes, prepare=way.come_due_in_the_index),
            Side(
                name="bare INSERT … SELECT, ledger too",
                work=lambda: bare(LEDGER_AND_RUNS),
                prepare=way.lie_there,
            ),
            Side(name="bare INSERT … SELECT", work=lambda: bare(RUNS), prepare=way.lie_there),
        ],
        rounds=ROUNDS,
        cpu=cpu_meter([database.pid]),
    )


class Way:
    """Makes one table after another, each with rows that come due, and trashes the one before."""

    def __init__(self, database, due):
        self.conn = database.conn
        self.due = due
        self.table = None

    def come_due(self):
        """A trigger is new on old rows: the walk finds them."""
        self._another(first=server_now(self.conn) - timedelta(days=30), triggers=[date_trigger()])

    def come_due_in_the_index(self):
        """The index knows the rows, and now their time is over.

        They are written so: dates that were moved would leave a dead row beside each.
        """
        self._another(first=None, triggers=[date_trigger()])
        catch_up(self.conn)
        began = server_now(self.conn) - timedelta(days=30)
        add_due_records(self.conn, self.table, self.due, at=began, step_seconds=60)
        self.conn.execute("ANALYZE record")

    def lie_there(self):
        """The rows are there, and nobody looks at them."""
        self._another(first=server_now(self.conn), triggers=[date_trigger()])
        store_definition(self.conn, tenant_id=self.table.tenant_id, hash=HASH, body=DEFINITION)

    def _another(self, *, first, triggers):
        if self.table is not None:
            self.conn.execute(
                "UPDATE custom_table SET trashed_at = scanned_at WHERE id = %s", [self.table.id]
            )
            self.conn.execute("TRUNCATE due_value")
        self.table = add_table(self.conn, triggers=triggers)
        if first is not None:
            add_records(self.conn, self.table, self.due, first=first)
            self.conn.execute("ANALYZE record")


def grown_mib(database, due):
    """Return by how much this process grows while a round makes that many runs."""
    Way(database, due).come_due()
    before = psutil.Process().memory_info().rss
    peak = before
    for _tick in round_of_ticks(database.conn, announced=True):
        peak = max(peak, psutil.Process().memory_info().rss)
    return (peak - before) / 2**20


if __name__ == "__main__":
    main()
