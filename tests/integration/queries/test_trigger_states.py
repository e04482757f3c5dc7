from datetime import timedelta

import pytest
from psycopg.errors import CheckViolation, UniqueViolation

from shared.queries.trigger_states import (
    consume_window,
    insert_state,
    list_states,
    list_states_by_ref,
    lock_all_states,
    move_cursor,
    rename_schedule,
    restart_walks,
    retire,
    revive,
    set_next_due,
    start_anew,
)
from tests import builders_db
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_table, trigger_id

CURSOR = (LONG_AGO, 12)


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _one(conn, state):
    return list_states_by_ref(conn, [state.ref])[0]


@pytest.fixture
def dated(conn, table):
    """A date trigger that has walked on."""
    state = builders_db.insert_state(conn, table)
    move_cursor(conn, state.ref, cursor=CURSOR, caught_up=True)
    return _one(conn, state)


@pytest.fixture
def clock(conn, table):
    return builders_db.insert_state(
        conn, table, kind="interval", last_window_at=NOW, next_due_at=NOW
    )


def _insert(conn, table, **more):
    values = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "trigger_id": trigger_id(5),
        "kind": "daily",
        "schedule": {"type": "daily", "at": "09:00"},
        "anchor_at": LONG_AGO,
        "next_due_at": NOW,
    }
    return insert_state(conn, **values | more)


def test_a_new_state_has_its_anchor_and_nothing_behind_it(conn, table):
    ref = _insert(conn, table)

    (state,) = list_states(conn, table.id)
    assert (state.ref, state.trigger_id, state.kind) == (ref, trigger_id(5), "daily")
    assert state.schedule == {"type": "daily", "at": "09:00"}
    assert (state.anchor_at, state.next_due_at) == (LONG_AGO, NOW)
    assert (state.last_window_at, state.cursor, state.caught_up) == (None, None, False)


def test_a_trigger_has_one_state_in_its_table(conn, table):
    _insert(conn, table)
    _insert(conn, insert_table(conn))

    with pytest.raises(UniqueViolation):
        _insert(conn, table)


def test_a_date_trigger_has_no_windows(conn, table):
    with pytest.raises(CheckViolation, match="windows_are_of_clocks"):
        _insert(conn, table, kind="date_column_reached")


def test_a_retired_state_is_only_seen_by_who_asks_for_all(conn, table, dated, clock):
    retire(conn, [dated.ref], now=NOW)

    assert [state.ref for state in list_states(conn, table.id)] == [clock.ref]
    assert [state.retired_at for state in lock_all_states(conn, table.id)] == [NOW, None]


def test_a_revived_state_keeps_its_anchor_and_window_and_walks_anew(conn, dated, clock):
    retire(conn, [dated.ref, clock.ref], now=NOW)

    revive(conn, dated.ref, next_due_at=None)
    revive(conn, clock.ref, next_due_at=FAR_OFF)

    walked, ticked = _one(conn, dated), _one(conn, clock)
    assert (walked.retired_at, walked.cursor, walked.caught_up) == (None, None, False)
    assert (ticked.anchor_at, ticked.last_window_at) == (clock.anchor_at, NOW)
    assert ticked.next_due_at == FAR_OFF


def test_a_retirement_keeps_its_first_instant(conn, clock):
    retire(conn, [clock.ref], now=NOW)
    retire(conn, [clock.ref], now=FAR_OFF)

    assert _one(conn, clock).retired_at == NOW


def test_an_edited_schedule_starts_anew(conn, dated, clock):
    start_anew(conn, clock.ref, schedule={"n": 1}, anchor_at=FAR_OFF, next_due_at=FAR_OFF)
    start_anew(conn, dated.ref, schedule={"n": 2}, anchor_at=FAR_OFF, next_due_at=None)

    ticked, walked = _one(conn, clock), _one(conn, dated)
    assert (ticked.schedule, ticked.anchor_at) == ({"n": 1}, FAR_OFF)
    assert (ticked.last_window_at, ticked.next_due_at) == (None, FAR_OFF)
    assert (walked.schedule, walked.cursor, walked.caught_up) == ({"n": 2}, None, False)


def test_a_renamed_column_leaves_the_walk_where_it_is(conn, dated):
    rename_schedule(conn, dated.ref, schedule={"column": "other"})

    renamed = _one(conn, dated)
    assert renamed.schedule == {"column": "other"}
    assert (renamed.cursor, renamed.caught_up) == (CURSOR, True)


def test_a_walk_that_has_caught_up_stays_so_until_it_restarts(conn, dated):
    move_cursor(conn, dated.ref, cursor=(NOW, 13), caught_up=False)
    assert (_one(conn, dated).cursor, _one(conn, dated).caught_up) == ((NOW, 13), True)

    restart_walks(conn, [dated.ref])
    assert (_one(conn, dated).cursor, _one(conn, dated).caught_up) == (None, False)


def test_a_walk_without_a_row_to_point_at_keeps_its_cursor(conn, dated):
    move_cursor(conn, dated.ref, cursor=None, caught_up=True)

    assert _one(conn, dated).cursor == CURSOR


def test_clock_triggers_have_no_walk_to_restart(conn, clock):
    restart_walks(conn, [clock.ref])

    assert _one(conn, clock) == clock


@pytest.mark.parametrize(("hours", "expected"), [(1, 1), (-1, 0)])
def test_the_last_window_only_moves_forward(conn, clock, hours, expected):
    consume_window(conn, clock.ref, window_at=NOW + timedelta(hours=hours), next_due_at=FAR_OFF)

    moved = _one(conn, clock)
    assert moved.last_window_at == NOW + timedelta(hours=expected)
    assert moved.next_due_at == FAR_OFF


@pytest.mark.parametrize("next_due_at", [FAR_OFF, None])
def test_the_next_look_can_be_set(conn, clock, next_due_at):
    set_next_due(conn, clock.ref, next_due_at=next_due_at)

    assert _one(conn, clock).next_due_at == next_due_at


def test_states_of_several_tables_are_found_by_ref(conn, dated):
    other = builders_db.insert_state(conn, insert_table(conn))

    assert list_states_by_ref(conn, [other.ref, dated.ref, 404]) == [dated, other]
