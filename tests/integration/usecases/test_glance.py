"""The glance of a tick at tables in which a scan would change nothing."""

import pytest

from shared.queries.due_tables import claim_table, list_tables_to_scan
from shared.usecases.glance import pass_by
from shared.usecases.scan_table import Order
from shared.usecases.tick import tick
from tests.builders import a_trigger
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    DATE,
    DAY,
    MINUTE,
    OVERDUE,
    a_known,
    due_index,
    end_runs,
    rewrite,
    runs,
    save,
    state_of,
    write,
)

LATER = NOW + MINUTE


@pytest.fixture
def table(conn):
    """A table that ticks have seen: one row ahead, one fired."""
    table = save(conn, insert_table(conn), a_known(schedule=DATE), now=NOW - DAY)
    write(conn, table, AHEAD, OVERDUE)
    _settle(conn)
    return table


def _settle(conn):
    for _ in range(3):
        tick(conn, now=NOW)


def _passed_by(conn, *, now=LATER, record_limit=10):
    order = Order(now=now, record_limit=record_limit, announced=False)
    return pass_by(conn, list_tables_to_scan(conn), order)


def _scanned_at(conn, table):
    return dict(list_tables_to_scan(conn))[table.id]


def test_a_table_that_wants_nothing_is_noted_as_scanned(conn, table):
    before = (state_of(conn), due_index(conn), len(runs(conn)))

    passed = _passed_by(conn)

    assert passed[table.id].has_schedules
    assert _scanned_at(conn, table) == LATER
    assert (state_of(conn), due_index(conn), len(runs(conn))) == before


def test_a_table_without_schedule_triggers_wants_nothing(conn):
    table = save(conn, insert_table(conn), a_trigger(on="record_created"))

    assert not _passed_by(conn)[table.id].has_schedules


def test_a_disabled_trigger_wants_nothing(conn):
    table = save(conn, insert_table(conn), a_known(schedule=DATE, enabled=False))
    write(conn, table, OVERDUE)

    assert table.id in _passed_by(conn)


@pytest.mark.parametrize("cell", ["2026-07-25 08:30", "2026-07-25 25:00"])
def test_a_row_that_may_be_due_is_left_to_the_scan(conn, table, cell):
    [record] = write(conn, table, AHEAD, now=NOW)
    _settle(conn)
    rewrite(conn, table, record, cell)

    assert _passed_by(conn) == {}
    assert _scanned_at(conn, table) == NOW


def test_a_table_that_no_page_has_room_for_is_left_to_the_scan(conn, table):
    assert _passed_by(conn, record_limit=2) == {}
    assert table.id in _passed_by(conn, record_limit=3)


def test_a_walk_that_has_not_passed_all_rows_is_left_to_the_scan(conn, table):
    save(conn, table, a_known(schedule=DATE | {"offset_minutes": 5}))

    assert _passed_by(conn) == {}


def test_the_hourly_look_at_all_rows_is_left_to_the_scan(conn, table):
    minutes = [_passed_by(conn, now=NOW + minute * MINUTE) for minute in range(1, 61)]

    assert minutes.count({}) == 1


@pytest.mark.parametrize("schedule", CLOCKS, ids=lambda schedule: schedule["type"])
def test_a_clock_trigger_wants_nothing_until_its_window_comes(conn, schedule):
    table = save(conn, insert_table(conn), a_known(schedule=schedule), now=NOW - 2 * DAY)
    _settle(conn)
    end_runs(conn)
    next_due_at = state_of(conn).next_due_at

    assert table.id in _passed_by(conn, now=next_due_at - MINUTE)
    assert _passed_by(conn, now=next_due_at) == {}


def test_a_clock_trigger_whose_next_look_is_wrong_is_left_to_the_scan(conn):
    save(conn, insert_table(conn), a_known(schedule=CLOCKS[0]), now=NOW - DAY)
    _settle(conn)
    conn.execute("UPDATE trigger_state SET next_due_at = NULL")

    assert _passed_by(conn) == {}


def test_a_table_that_another_tick_has_is_not_noted(conn, other_conn, table):
    with other_conn.transaction():
        assert claim_table(other_conn, table.id)
        passed = _passed_by(conn)

    assert passed == {}
    assert _scanned_at(conn, table) == NOW


def test_a_table_that_another_tick_has_scanned_since_is_not_noted(conn, table):
    listed = list_tables_to_scan(conn)
    _passed_by(conn)
    order = Order(now=LATER + MINUTE, record_limit=10, announced=False)

    assert pass_by(conn, listed, order) == {}
    assert _scanned_at(conn, table) == LATER


def test_a_definition_that_cannot_be_read_leaves_all_to_the_scan(conn, table):
    broken = insert_table(conn, triggers=[])
    conn.execute("""UPDATE custom_table SET columns = '[{}]' WHERE id = %s""", [broken.id])

    assert _passed_by(conn) == {}
    assert tick(conn, now=LATER).tables_scanned == 2


def test_a_tick_counts_what_it_passed_by(conn, table):
    other = save(conn, insert_table(conn), a_known(id="trg_00000000cccc", schedule=DATE))
    write(conn, other, OVERDUE)

    result = tick(conn, now=LATER)

    assert (result.tables_scanned, result.tables_with_schedules) == (2, 2)
    assert result.runs_created == 1
