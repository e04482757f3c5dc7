"""The walk of date triggers: pages, cursor, wrap, and what due rows mean for it (spec 1 §7)."""

from math import ceil

import pytest

from shared.effects.record_writes import delete_record, restore_record
from shared.usecases.scan_table import Turn
from shared.usecases.tick import tick
from tests.builders_db import LONG_AGO, NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    DATE,
    DAY,
    MINUTE,
    OTHER_ID,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    at,
    created,
    due_index,
    fired,
    ledger,
    rewrite,
    save,
    state_of,
    write,
)


@pytest.fixture
def table(conn):
    """A table with a date trigger on the column ``due``."""
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    return table


def _cursor(conn):
    """Return the id of the record that the walk looked at last."""
    cursor = state_of(conn).cursor
    return None if cursor is None else cursor[1]


def test_a_row_is_due_when_its_instant_and_offset_have_come(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule={**DATE, "offset_minutes": -60}))
    [record] = write(conn, table, "2026-07-25 10:00")

    assert created(conn, now=NOW - MINUTE) == 0
    assert created(conn, now=NOW) == 1

    assert fired(conn) == [(record.id, "2026-07-25 10:00")]


def test_a_new_trigger_fires_every_overdue_row(conn):
    table = insert_table(conn)
    records = write(conn, table, "2020-01-01", "0001-01-01 00:00", AHEAD, OVERDUE)
    save(conn, table, a_known(schedule={**DATE, "offset_minutes": -43200}))

    assert created(conn) == 4

    assert [record_id for record_id, _ in ledger(conn)] == [one.id for one in records]


def test_cells_at_the_end_of_time_never_fire_and_never_fail(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule={**DATE, "offset_minutes": 43200}))
    write(conn, table, "9999-12-31 23:59", "nonsense", None, "", {}, OVERDUE)
    conn.execute("DELETE FROM due_value")

    assert created(conn, now=NOW + 31 * DAY) == 1

    assert due_index(conn) == {}


def test_one_value_fires_once_whatever_became_of_its_run(conn, table):
    [record] = write(conn, table, OVERDUE)
    assert created(conn) == 1

    rewrite(conn, table, record, "2026-07-25T08:00:59+08:00")
    assert created(conn) == 0
    conn.execute("DELETE FROM trigger_run")
    assert created(conn) == 0


def test_a_new_value_arms_again_and_a_fired_one_does_not(conn, table):
    [record] = write(conn, table, OVERDUE)
    created(conn)

    rewrite(conn, table, record, "2026-07-25 08:30")
    assert created(conn) == 1
    rewrite(conn, table, record, OVERDUE)
    assert created(conn) == 0

    assert ledger(conn) == [(record.id, OVERDUE), (record.id, "2026-07-25 08:30")]


def test_a_row_that_when_refuses_consumes_nothing_and_fires_once_it_matches(conn):
    table = insert_table(conn)
    when = [{"column": "title", "op": "eq", "value": "open"}]
    save(conn, table, a_known(schedule=DATE, when=when))
    [record] = write(conn, table, {"c1": "closed", "c2": OVERDUE})
    assert created(conn) == 0
    assert ledger(conn) == []

    conn.execute('UPDATE record SET data = data || \'{"c1": "open"}\', version = version + 1')

    assert created(conn) == 1
    assert fired(conn) == [(record.id, OVERDUE)]


def test_deleted_rows_do_not_fire_and_restored_ones_do(conn, table):
    [record] = write(conn, table, OVERDUE)
    delete_record(conn, table, record.id, now=NOW)
    assert created(conn) == 0

    restore_record(conn, table, record.id, now=NOW)

    assert created(conn) == 1


def test_records_of_one_trigger_run_side_by_side(conn, table):
    write(conn, table, *[OVERDUE] * 3)

    assert created(conn) == 3
    [second] = write(conn, table, "2026-07-25 08:01", now=NOW)

    assert created(conn) == 1
    assert fired(conn)[-1] == (second.id, "2026-07-25 08:01")


def test_the_cursor_moves_to_the_last_row_looked_at_though_nothing_is_due(conn, table):
    records = write(conn, table, *[AHEAD] * 30)

    created(conn, record_limit=2)

    assert _cursor(conn) == records[21].id


def test_a_tick_reads_one_page_and_up_to_ten_further_ones(conn, table):
    records = write(conn, table, *[AHEAD] * 11, OVERDUE)

    assert created(conn, record_limit=1) == 0
    assert _cursor(conn) == records[10].id
    assert created(conn, record_limit=1) == 1


def test_the_first_page_with_a_due_row_is_the_last_of_the_tick(conn, table):
    records = write(conn, table, AHEAD, AHEAD, AHEAD, OVERDUE, OVERDUE, AHEAD)

    result = tick(conn, record_limit=2, now=NOW)

    assert result.runs_created == 1
    assert result.unfinished == (Turn(table.id, NOW),)
    assert _cursor(conn) == records[3].id
    assert created(conn, record_limit=2) == 1


def test_pages_go_over_the_end_of_the_table_and_no_row_comes_twice(conn, table):
    records = write(conn, table, *[AHEAD] * 5)
    created(conn, record_limit=5)
    rewrite(conn, table, records[0], "2026-07-24 08:00")
    write(conn, table, OVERDUE, now=NOW)

    # From behind the fifth: the sixth, then the first two.
    assert created(conn, record_limit=3) == 2

    assert _cursor(conn) == records[1].id


def test_a_tick_ends_when_it_has_come_round(conn, table):
    records = write(conn, table, *[AHEAD] * 5)
    created(conn, record_limit=3)
    assert _cursor(conn) == records[4].id

    created(conn, record_limit=2)

    assert _cursor(conn) == records[4].id


def test_a_tick_that_completes_the_first_pass_has_its_further_pages_too(conn, table):
    records = write(conn, table, *[AHEAD] * 12)
    created(conn, record_limit=1)
    rewrite(conn, table, records[5], OVERDUE)

    # The twelfth row, and the first six.
    assert created(conn, record_limit=1) == 1

    assert _cursor(conn) == records[5].id


def test_a_new_row_behind_the_cursor_is_looked_at_first(conn, table):
    write(conn, table, *[AHEAD] * 5)
    created(conn)
    [new] = write(conn, table, OVERDUE, now=NOW)

    assert created(conn, record_limit=1) == 1

    assert _cursor(conn) == new.id


def test_the_walk_goes_on_where_its_row_was_deleted(conn, table):
    records = write(conn, table, *[AHEAD] * 4, OVERDUE)
    created(conn, record_limit=4)
    created(conn, record_limit=1)
    delete_record(conn, table, records[4].id, now=NOW)
    [after] = write(conn, table, "2026-07-25 08:30", now=NOW)

    assert created(conn, record_limit=1) == 1

    assert fired(conn)[-1][0] == after.id


@pytest.mark.parametrize("place", [0, 17, 33, 34])
def test_every_row_is_looked_at_within_the_promised_number_of_ticks(conn, table, place):
    cells = [AHEAD] * 35
    cells[place] = OVERDUE
    write(conn, table, *cells)

    counts = [created(conn, record_limit=1) for _ in range(ceil(35 / 10))]

    assert sum(counts) == 1


def test_a_walk_that_has_not_passed_all_rows_is_unfinished(conn, table):
    write(conn, table, *[AHEAD] * 13)

    first = tick(conn, record_limit=1, now=NOW)
    second = tick(conn, record_limit=1, now=NOW)
    third = tick(conn, record_limit=1, now=NOW)

    assert [bool(one.unfinished) for one in (first, second, third)] == [True, False, False]
    assert state_of(conn).caught_up


def test_a_page_with_due_rows_that_was_the_whole_table_leaves_nothing_unfinished(conn, table):
    write(conn, table, OVERDUE, AHEAD)

    assert tick(conn, now=NOW).unfinished == ()


def test_the_walk_fills_the_due_index(conn, table):
    records = write(conn, table, AHEAD, OVERDUE, "2026-07-27 08:00", "nonsense")
    conn.execute("DELETE FROM due_value")

    created(conn)

    assert due_index(conn) == {
        records[0].id: at("2026-07-26 08:00"),
        records[2].id: at("2026-07-27 08:00"),
    }


def test_the_walk_corrects_the_due_index(conn, table):
    [record] = write(conn, table, AHEAD)
    conn.execute("UPDATE due_value SET fire_at = '2030-01-01Z'")

    created(conn)

    assert due_index(conn) == {record.id: at("2026-07-26 08:00")}


def test_once_caught_up_the_walk_fills_the_due_index_one_minute_an_hour(conn, table):
    [record] = write(conn, table, "2027-01-01")
    created(conn)
    filled = []

    for minute in range(60):
        conn.execute("DELETE FROM due_value")
        created(conn, now=NOW + minute * MINUTE)
        filled.append(due_index(conn))

    assert [index for index in filled if index] == [{record.id: at("2027-01-01 00:00")}]


def test_what_the_due_index_has_lost_the_walk_fires_all_the_same(conn, table):
    write(conn, table, AHEAD)
    created(conn)
    conn.execute("DELETE FROM due_value")

    assert created(conn, now=at(AHEAD)) == 1


def test_the_page_of_a_small_table_has_the_new_rows_too_and_leaves_the_cursor(conn, table):
    records = write(conn, table, AHEAD, AHEAD)
    created(conn)
    write(conn, table, OVERDUE, now=NOW)

    assert created(conn, record_limit=4) == 1

    assert _cursor(conn) == records[1].id


def test_a_walk_is_cut_into_transactions_at_the_ends_of_pages(conn, table):
    write(conn, table, *[AHEAD] * 12, OVERDUE)
    conn.execute("DELETE FROM due_value")

    assert created(conn, record_limit=2, lock_seconds=0) == 1

    assert len(due_index(conn)) == 12


def test_an_edit_between_two_transactions_of_a_walk_lets_it_begin_anew_later(conn, table):
    records = write(conn, table, *[AHEAD] * 6)
    conn.execute("DELETE FROM due_value")
    conn.execute(
        """
        CREATE FUNCTION restart() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE trigger_state SET cursor_created_at = NULL, cursor_record_id = NULL
            WHERE cursor_record_id IS NOT NULL;
            RETURN NULL;
        END $$
        """
    )
    # Deferred to the commit: as if an author had saved between two transactions of the tick.
    conn.execute(
        "CREATE CONSTRAINT TRIGGER restart AFTER UPDATE ON trigger_state"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        " WHEN (NEW.cursor_record_id IS NOT NULL) EXECUTE FUNCTION restart()"
    )

    result = tick(conn, record_limit=2, lock_seconds=0, now=NOW)

    assert result.unfinished == (Turn(table.id, NOW),)
    assert sorted(due_index(conn)) == [one.id for one in records[:2]]


def test_the_triggers_of_a_table_walk_each_for_itself(conn, table):
    records = write(conn, table, *[AHEAD] * 12)
    created(conn, record_limit=12)
    save(conn, table, a_known(schedule=DATE), a_known(id=OTHER_ID, schedule=DATE))
    [new] = write(conn, table, OVERDUE, now=NOW)

    assert created(conn, record_limit=1) == 1

    assert state_of(conn, TRIGGER_ID).cursor[1] == new.id
    assert state_of(conn, OTHER_ID).cursor[1] == records[10].id


def test_the_snapshot_is_the_row_that_was_judged(conn, table):
    write(conn, table, {"c1": "bread", "c2": OVERDUE, "c3": 2.5}, now=LONG_AGO)

    created(conn)

    [(snapshot, scheduled_for)] = conn.execute("SELECT snapshot, scheduled_for FROM trigger_run")
    assert snapshot == {"c1": "bread", "c2": OVERDUE, "c3": 2.5}
    assert scheduled_for == at(OVERDUE)
