"""The round: ticks until each table was claimed once and no walk waits (spec 1 §7)."""

from shared.queries.due_tables import claim_table
from shared.usecases.scan_table import Turn
from shared.usecases.tick import round_of_ticks, tick
from tests.builders import a_trigger
from tests.builders_db import LONG_AGO, insert_run, insert_table
from tests.integration.usecases.world import (
    DATE,
    OVERDUE,
    a_known,
    poison_table,
    runs,
    save,
    state_of,
    write,
)

FAR_OFF = "2100-01-01"


def _tables(conn, number):
    tables = [insert_table(conn) for _ in range(number)]
    for table in tables:
        save(conn, table, a_trigger(schedule={"type": "interval", "every_seconds": 60}))
    return tables


def _round(conn, **options):
    return list(round_of_ticks(conn, **options))


def test_a_round_claims_every_table_once(conn):
    tables = _tables(conn, 7)

    ticks = _round(conn, table_limit=3)

    assert [one.tables_scanned for one in ticks] == [3, 3, 1]
    assert {run["table_id"] for run in runs(conn)} == {table.id for table in tables}


def test_a_round_goes_on_while_walks_stop_at_pages_with_due_rows(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, *[OVERDUE] * 7)
    _tables(conn, 2)

    ticks = _round(conn, record_limit=2)

    assert sum(one.runs_created for one in ticks) == 9
    assert [bool(one.unfinished) for one in ticks] == [True] * 4 + [False]


def test_a_round_goes_on_until_new_walks_have_passed_all_rows(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, *[FAR_OFF] * 25)

    ticks = _round(conn, record_limit=1)

    assert len(ticks) == 3
    assert state_of(conn).caught_up


def test_a_table_that_another_tick_has_counts_as_done(conn, other_conn):
    held, _ = _tables(conn, 2)

    with other_conn.transaction():
        claim_table(other_conn, held.id)
        ticks = _round(conn)

    assert [one.tables_scanned for one in ticks] == [1]


def test_a_table_that_always_fails_does_not_keep_the_round_from_its_end(conn):
    tables = _tables(conn, 3)
    poison_table(conn, tables[0])

    ticks = _round(conn, table_limit=1)

    assert sorted(one.runs_created for one in ticks) == [0, 1, 1]


def test_a_table_that_takes_long_goes_on_when_the_others_had_their_turn(conn):
    minutely = {"type": "interval", "every_seconds": 60}
    slow, quick = insert_table(conn), insert_table(conn)
    save(conn, slow, *[a_trigger(schedule=minutely) for _ in range(3)])
    save(conn, quick, a_trigger(schedule=minutely))
    waiting = [Turn(table.id, LONG_AGO) for table in (slow, quick)]
    conn.execute("UPDATE custom_table SET scanned_at = %s", [LONG_AGO])

    while waiting:
        result = tick(conn, tables=waiting[:1], lock_seconds=0, turn_seconds=0)
        waiting = [*waiting[1:], *result.unfinished]

    assert [run["table_id"] for run in runs(conn)] == [slow.id, quick.id, slow.id, slow.id]


def test_a_round_without_tables_sweeps(conn):
    insert_run(conn, announcements=1)

    [only] = _round(conn)

    assert only.trigger_runs_requeued == 1


def test_each_tick_of_a_round_can_be_taken_by_itself(conn):
    _tables(conn, 2)
    ticks = round_of_ticks(conn, table_limit=1, announced=True)

    assert len(next(ticks).references) == 1
    assert len(runs(conn)) == 1
    assert len(next(ticks).references) == 1
    assert next(ticks, None) is None
