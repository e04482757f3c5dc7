"""What a save does to the durable state of a trigger (spec 1 §4 and §11), seen through ticks."""

import pytest

from shared.domain.columns import Column
from tests.builders_db import COLUMNS, NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    CRON,
    DAILY,
    DATE,
    DAY,
    HOUR,
    INTERVAL,
    MINUTE,
    OVERDUE,
    a_known,
    arm,
    at,
    created,
    due_index,
    end_runs,
    fired,
    ledger,
    rewrite,
    save,
    state_of,
    write,
)

DAY_COLUMN = Column(id="c4", name="day", type="date")
NOT_EMPTY = [{"column": "due", "op": "not_empty"}]
A_MESSAGE = {
    "type": "notify",
    "chatroom_id": "11111111-1111-4111-8111-111111111111",
    "message": "m",
}


def daily(at, **more):
    return {"type": "daily", "at": at, **more}


def cron(expression, **more):
    return {"type": "cron", "expression": expression, **more}


def _identity_of(state):
    """Return what makes up the identity of a state."""
    return state.ref, state.kind, state.anchor_at, state.last_window_at, state.retired_at


@pytest.mark.parametrize("schedule", [DATE, INTERVAL, DAILY])
@pytest.mark.parametrize(
    "edit",
    [
        {"name": "called otherwise"},
        {"when": NOT_EMPTY},
        {"actions": [A_MESSAGE]},
        {"enabled": False},
    ],
)
def test_an_edit_of_anything_but_the_schedule_leaves_the_identity_alone(conn, schedule, edit):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule))
    write(conn, table, OVERDUE)
    assert created(conn) == 1
    end_runs(conn)
    before = state_of(conn)

    save(conn, table, a_known(schedule=schedule, **edit), now=NOW + MINUTE)

    assert _identity_of(state_of(conn)) == _identity_of(before)
    assert created(conn, now=NOW + MINUTE) == 0


@pytest.mark.parametrize("edit", [{"name": "called otherwise"}, {"actions": [A_MESSAGE]}])
def test_an_edit_that_decides_nothing_leaves_the_walk_where_it_is(conn, edit):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, AHEAD)
    created(conn)
    before = state_of(conn)

    save(conn, table, a_known(schedule=DATE, **edit))

    assert state_of(conn) == before
    assert before.cursor is not None


@pytest.mark.parametrize("edit", [{"column": "day"}, {"offset_minutes": 5}])
def test_an_edit_of_column_or_offset_restarts_the_walk_and_keeps_the_ledger(conn, edit):
    table = insert_table(conn, columns=(*COLUMNS, DAY_COLUMN))
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, OVERDUE)
    created(conn)
    before = ledger(conn)

    save(conn, table, a_known(schedule={**DATE, **edit}))

    state = state_of(conn)
    assert (state.cursor, state.caught_up) == (None, False)
    assert ledger(conn) == before
    assert created(conn) == 0


def test_consumed_values_stay_consumed_under_another_offset(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    [first, _] = write(conn, table, OVERDUE, AHEAD)
    created(conn)

    save(conn, table, a_known(schedule={**DATE, "offset_minutes": -1440}))

    assert created(conn) == 1
    assert fired(conn)[0] == (first.id, OVERDUE)
    assert len(fired(conn)) == 2


def test_a_trigger_moved_from_a_datetime_to_a_date_column_has_new_identities(conn):
    table = insert_table(conn, columns=(*COLUMNS, DAY_COLUMN))
    save(conn, table, a_known(schedule=DATE))
    [record] = write(conn, table, {"c2": OVERDUE, "c4": OVERDUE})
    created(conn)

    save(conn, table, a_known(schedule={**DATE, "column": "day"}))

    assert created(conn) == 1
    assert fired(conn) == [(record.id, "2026-07-25 08:00"), (record.id, "2026-07-25")]


@pytest.mark.parametrize(
    ("before", "after", "anchor"),
    [
        (INTERVAL, {**INTERVAL, "every_seconds": 60}, "2026-07-25 11:00"),
        (DAILY, daily("10:00"), "2026-07-25 00:00"),
        (DAILY, {**DAILY, "timezone": "Asia/Taipei"}, "2026-07-24 16:00"),
        (CRON, cron("0 10 * * *"), "2026-07-25 11:00"),
        (CRON, {**CRON, "timezone": "Asia/Taipei"}, "2026-07-25 11:00"),
    ],
)
def test_an_edited_clock_counts_from_a_new_anchor_and_forgets_its_last_window(
    conn, before, after, anchor
):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=before), now=NOW - DAY)
    created(conn)
    consumed = ledger(conn)
    assert state_of(conn).last_window_at is not None

    save(conn, table, a_known(schedule=after), now=at("2026-07-25 11:00"))

    state = state_of(conn)
    assert (state.anchor_at, state.last_window_at) == (at(anchor), None)
    assert arm(conn, table)["last_consumed_window_at"] is None
    assert ledger(conn) == consumed


@pytest.mark.parametrize("schedule", CLOCKS)
def test_an_identical_schedule_changes_no_state(conn, schedule):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule), now=NOW - DAY)
    created(conn)
    before = state_of(conn)

    save(conn, table, a_known(schedule={**schedule}), now=NOW + HOUR)

    assert state_of(conn) == before


def test_a_written_default_is_no_edit(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DAILY))
    before = state_of(conn)

    save(conn, table, a_known(schedule={**DAILY, "timezone": "UTC"}), now=NOW + HOUR)

    assert state_of(conn) == before


def test_a_run_in_flight_keeps_its_frozen_definition(conn):
    table = insert_table(conn)
    save(conn, table, a_known())
    created(conn)

    save(conn, table, a_known(actions=[A_MESSAGE]), now=NOW + HOUR)
    end_runs(conn)
    created(conn, now=NOW + HOUR)

    frozen = conn.execute(
        "SELECT body #>> '{trigger,actions,0,type}' FROM trigger_run"
        " JOIN definition ON hash = definition_hash ORDER BY id"
    ).fetchall()
    assert frozen == [("webhook",), ("notify",)]


def test_a_daily_moved_from_half_past_one_to_noon_at_eleven_fires_at_noon(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=daily("01:30")), now=at("2026-07-25 10:00"))
    assert created(conn, now=at("2026-07-25 10:00")) == 1
    end_runs(conn)

    save(conn, table, a_known(schedule=daily("12:00")), now=at("2026-07-25 11:00"))

    assert created(conn, now=at("2026-07-25 11:59")) == 0
    assert created(conn, now=at("2026-07-25 12:00")) == 1


def test_a_daily_moved_to_an_earlier_time_of_the_day_fires_at_once(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=daily("09:30")), now=at("2026-07-25 10:00"))
    created(conn, now=at("2026-07-25 10:00"))
    end_runs(conn)

    save(conn, table, a_known(schedule=daily("08:00")), now=at("2026-07-25 11:00"))

    assert created(conn, now=at("2026-07-25 11:00")) == 1


def test_away_and_back_never_fires_twice(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=daily("09:30")), now=at("2026-07-25 10:00"))
    created(conn, now=at("2026-07-25 10:00"))
    end_runs(conn)
    save(conn, table, a_known(schedule=daily("12:00")), now=at("2026-07-25 11:00"))

    save(conn, table, a_known(schedule=daily("09:30")), now=at("2026-07-25 11:05"))

    told = arm(conn, table, now=at("2026-07-25 11:06"))
    assert (told["due_at"], told["due_now"]) == (None, False)
    assert created(conn, now=at("2026-07-25 11:06")) == 0
    assert state_of(conn).last_window_at == at("2026-07-25 09:30")
    assert created(conn, now=at("2026-07-26 09:30")) == 1


def test_an_interval_fires_at_the_very_next_tick_after_its_save_and_its_edit(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    assert created(conn) == 1
    end_runs(conn)

    save(conn, table, a_known(schedule={**INTERVAL, "every_seconds": 7200}), now=NOW + MINUTE)

    assert created(conn, now=NOW + MINUTE) == 1


def test_a_cron_window_at_the_very_instant_of_the_save_does_not_fire(conn):
    table = insert_table(conn)

    save(conn, table, a_known(schedule=cron("0 9 * * *")), now=NOW)

    assert created(conn, now=NOW + HOUR) == 0
    assert created(conn, now=NOW + DAY) == 1


@pytest.mark.parametrize("schedule", [DATE, *CLOCKS])
def test_removal_retires_state_and_ledger_and_the_id_revives_them(conn, schedule):
    table = insert_table(conn)
    trigger = a_known(schedule=schedule)
    save(conn, table, trigger, now=NOW - DAY)
    write(conn, table, OVERDUE)
    assert created(conn) == 1
    end_runs(conn)
    before, consumed = state_of(conn), ledger(conn)

    save(conn, table)
    assert state_of(conn).retired_at == NOW
    assert created(conn, now=NOW + MINUTE) == 0
    save(conn, table, trigger, now=NOW + MINUTE)

    assert _identity_of(state_of(conn)) == _identity_of(before)
    assert ledger(conn) == consumed
    assert created(conn, now=NOW + MINUTE) == 0


@pytest.mark.parametrize("schedule", [DATE, *CLOCKS])
def test_a_trigger_that_goes_to_an_event_and_returns_finds_its_state(conn, schedule):
    table = insert_table(conn)
    trigger = a_known(schedule=schedule)
    save(conn, table, trigger, now=NOW - DAY)
    write(conn, table, OVERDUE)
    created(conn)
    end_runs(conn)
    before = state_of(conn)

    save(conn, table, a_known(on="record_deleted"))
    assert state_of(conn).retired_at == NOW
    save(conn, table, trigger, now=NOW + MINUTE)

    assert _identity_of(state_of(conn)) == _identity_of(before)
    assert created(conn, now=NOW + MINUTE) == 0


def test_a_trigger_that_returns_with_another_schedule_counts_anew(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)
    end_runs(conn)
    save(conn, table)

    save(conn, table, a_known(schedule={**INTERVAL, "every_seconds": 60}), now=NOW + MINUTE)

    state = state_of(conn)
    assert (state.anchor_at, state.last_window_at) == (NOW + MINUTE, None)
    assert state.retired_at is None


def _remove(conn, table, trigger):
    save(conn, table)


def _disable(conn, table, trigger):
    save(conn, table, {**trigger, "enabled": False})


@pytest.mark.parametrize("leave", [_remove, _disable])
def test_a_cron_that_comes_back_unchanged_fires_its_latest_missed_window_once(conn, leave):
    table = insert_table(conn)
    trigger = a_known(schedule=cron("0 * * * *"))
    save(conn, table, trigger)
    leave(conn, table, trigger)
    assert created(conn, now=NOW + 5 * HOUR) == 0

    save(conn, table, trigger, now=NOW + 5 * HOUR + MINUTE)

    assert created(conn, now=NOW + 5 * HOUR + MINUTE) == 1
    end_runs(conn)
    assert fired(conn) == [(None, "2026-07-25T14:00:00Z")]
    assert created(conn, now=NOW + 5 * HOUR + MINUTE) == 0


def test_a_date_that_came_due_while_the_trigger_was_off_fires_when_it_is_on(conn):
    table = insert_table(conn)
    trigger = a_known(schedule=DATE)
    save(conn, table, {**trigger, "enabled": False})
    write(conn, table, OVERDUE)
    assert created(conn) == 0

    save(conn, table, trigger)

    assert created(conn) == 1


@pytest.mark.parametrize(
    ("before", "after"), [({"enabled": False}, {}), ({}, {"when": NOT_EMPTY})], ids=["on", "when"]
)
def test_an_edit_after_which_other_rows_fire_lets_the_walk_begin_anew(conn, before, after):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, AHEAD)
    created(conn)
    save(conn, table, a_known(schedule=DATE, **before))
    assert state_of(conn).caught_up

    save(conn, table, a_known(schedule=DATE, **after))

    state = state_of(conn)
    assert (state.cursor, state.caught_up) == (None, False)


def test_the_due_index_is_full_again_after_a_return(conn):
    table = insert_table(conn)
    trigger = a_known(schedule=DATE)
    save(conn, table, trigger)
    [record] = write(conn, table, AHEAD)
    save(conn, table)
    rewrite(conn, table, record, "2026-07-27 08:00")
    save(conn, table, trigger)

    created(conn)

    assert due_index(conn) == {record.id: at("2026-07-27 08:00")}


def test_the_due_pass_is_to_leave_a_disabled_clock_alone(conn):
    table = insert_table(conn)
    save(conn, table, a_known(enabled=False))
    assert state_of(conn).next_due_at is None

    save(conn, table, a_known(enabled=True), now=NOW + MINUTE)
    assert state_of(conn).next_due_at == NOW + MINUTE

    save(conn, table, a_known(enabled=False))
    assert state_of(conn).next_due_at is None
