"""What does an author wait for who asks what a save would lead to?

A new trigger on a table with history, three ways: every row overdue, every row ahead, and every row
overdue and consumed before (the trigger is known). Rows are counted through the evaluator, all of
them; the longest statement tells how far from the limit of 30 s each of them stays.
"""

from datetime import timedelta

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_records, add_table, catch_up, date_trigger
from benchmarks.measure.servers import running_database
from benchmarks.measure.turns import Side, in_turns
from shared.db.clock import server_now
from shared.domain.triggers import read_triggers
from shared.queries.trigger_states import list_states
from shared.usecases.consequences import consequences_of

ROUNDS = 3
LONGEST = """
SELECT max(max_exec_time)
FROM pg_stat_statements
WHERE query LIKE '%%wants_a_look%%' OR query LIKE '%%data ->> %%'
"""


def main():
    """Measure the ways in turns and print one table."""
    options = read_options(__doc__, sizes={"records": (100_000, 1_000_000)})
    with running_database(count_statements=True) as database:
        sides = [
            side(database, options.records, name=name, **parts)
            for name, parts in {
                "all overdue": {"overdue": True},
                "all overdue, when": {"overdue": True, "when": True},
                "all ahead": {"overdue": False},
                "all consumed": {"overdue": True, "consumed": True},
            }.items()
        ]
        database.settle()
        with database.admin() as admin:
            admin.execute("CREATE EXTENSION pg_stat_statements")
            figures = in_turns(sides, rounds=ROUNDS, cpu=cpu_meter([database.pid]))
            [(longest,)] = admin.execute(LONGEST).fetchall()
    rows = [
        {
            "rows": figure.name,
            "s": rounded(figure.turn_seconds),
            "CPU s": rounded(figure.cpu_turn_seconds),
            "µs a row": rounded(figure.turn_seconds / options.records * 1e6),
        }
        for figure in figures
    ]
    none = {"CPU s": None, "µs a row": None}
    rows.append({"rows": "longest statement", "s": rounded(longest / 1000), **none})
    report("consequences", f"A table of {options.records:,} records", rows, options=options)


def side(database, records, *, name, overdue, when=False, consumed=False):
    """Return the question about a table of its own."""
    conn = database.conn
    predicates = [{"column": "amount", "op": "gte", "value": 0}] if when else []
    authored = {**date_trigger(), "when": predicates}
    table = add_table(conn, triggers=[authored] if consumed else None)
    days = -400 if overdue else 400
    add_records(conn, table, records, first=server_now(conn) + timedelta(days=days), step_seconds=1)
    if consumed:
        catch_up(conn)
        authored = table.triggers[0]
    (read,) = read_triggers([authored], table.columns)
    expected = records if overdue and not consumed else 0

    def ask():
        states = {state.trigger_id: state for state in list_states(conn, table.id)}
        (told,) = consequences_of(
            conn, table, [read.trigger], states, now=server_now(conn), seconds=600
        )
        assert told.fires_next_tick == expected
        return 1

    return Side(name=name, work=ask)


if __name__ == "__main__":
    main()
