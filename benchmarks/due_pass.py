"""What does it cost to find out that nothing is due, over thousands of tables with triggers?

The due pass asks the due index and the next looks of clock triggers. The audit walk, a whole round
of ticks, looks at every record of every table; beside it runs the one statement that would do the
looking alone: all tables, each with its records, and the date test in SQL. First every date lies
ahead, then every date is over and has fired.
"""

from datetime import timedelta

from benchmarks.measure.processes import cpu_meter
from benchmarks.measure.report import read_options, report, rounded
from benchmarks.measure.seeds import add_records, add_table, add_tenant, catch_up, date_trigger
from benchmarks.measure.servers import running_database
from benchmarks.measure.turns import Side, in_turns
from shared.db.clock import server_now
from shared.usecases.due_pass import due_pass, next_due_at
from shared.usecases.tick import round_of_ticks

ROUNDS = 5
PASSES = 20
TENANTS = 20
RECORD_LIMIT = 1000

# One look at each record, as SQL alone can do it: is the cell's text before now's, is it in the
# ledger. What looks over would then be read; a cast would fail at the first cell that is no date.
ONE_LATERAL = """
SELECT count(*)
FROM trigger_state AS state
JOIN custom_table AS owner ON owner.id = state.table_id
CROSS JOIN LATERAL (
    SELECT record.id, left(record.data ->> 'c2', 16) AS cell
    FROM record
    WHERE record.table_id = state.table_id AND record.deleted_at IS NULL
    ORDER BY record.created_at, record.id
    LIMIT %(record_limit)s
) AS page
WHERE owner.trashed_at IS NULL
    AND state.kind = 'date_column_reached'
    AND page.cell COLLATE "C" <= %(now)s
    AND NOT EXISTS (
        SELECT
        FROM occurrence
        WHERE occurrence.trigger_ref = state.id
            AND occurrence.record_id = page.id
            AND occurrence.identity = page.cell
    )
"""


# Every date is over, and the ledger has it.
FIRE_ALL = """
UPDATE record
SET data = jsonb_set(data, '{c2}', to_jsonb(overlay(data ->> 'c2' PLACING '19' FROM 1 FOR 2)));
INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
SELECT state.id, record.id, record.data ->> 'c2', true, state.anchor_at
FROM record
JOIN trigger_state AS state ON state.table_id = record.table_id;
TRUNCATE due_value
"""


def main():
    """Measure pass, walk and statement in turns, twice, and print one table."""
    options = read_options(__doc__, sizes={"tables": (500, 2000), "records": (200_000, 1_000_000)})
    with running_database() as database:
        fill(database, options)
        rows = lines(measure(database, options), "dates ahead")
        database.conn.execute(FIRE_ALL)
        database.settle()
        rows += lines(measure(database, options), "dates over, fired")
    title = f"Nothing due: {options.tables:,} tables with triggers, {options.records:,} records"
    report("due_pass", title, rows, options=options)


def lines(figures, records):
    """Return the figures as lines of the table."""
    *_, walk, lateral = figures
    ratio = rounded(walk.turn_seconds / lateral.turn_seconds)
    return [
        {
            "records": records,
            "question": figure.name,
            "ms": rounded(figure.turn_seconds / figure.units * 1000),
            "CPU ms": rounded(figure.cpu_turn_seconds / figure.units * 1000),
            "of the one statement": ratio if figure is walk else None,
        }
        for figure in figures
    ]


def fill(database, options):
    """Make tables with a date trigger each, and records that lie ahead."""
    conn = database.conn
    ahead = server_now(conn) + timedelta(days=400)
    tenants = [add_tenant(conn) for _ in range(TENANTS)]
    for number in range(options.tables):
        triggers = [date_trigger()]
        table = add_table(conn, tenant_id=tenants[number % TENANTS], triggers=triggers)
        add_records(conn, table, options.records // options.tables, first=ahead, step_seconds=60)
    catch_up(conn)
    database.settle()


def measure(database, options):
    """Return the figures of a pass, a whole walk and the one statement."""
    conn = database.conn
    records = options.records // options.tables * options.tables

    def passes():
        for _ in range(PASSES):
            next_due_at(conn)
            assert due_pass(conn).looked_at == 0
        return PASSES

    def walk():
        ticks = list(round_of_ticks(conn, record_limit=RECORD_LIMIT))
        assert sum(tick.tables_scanned for tick in ticks) == options.tables
        assert sum(tick.runs_created for tick in ticks) == 0
        return 1

    def one_lateral():
        parameters = {"record_limit": records, "now": f"{server_now(conn):%Y-%m-%d %H:%M}"}
        assert conn.execute(ONE_LATERAL, parameters).fetchone() == (0,)
        return 1

    return in_turns(
        [
            Side(name="due pass", work=passes),
            Side(name="audit walk over all", work=walk),
            Side(name="one LATERAL statement", work=one_lateral),
        ],
        rounds=ROUNDS,
        cpu=cpu_meter([database.pid]),
    )


if __name__ == "__main__":
    main()
