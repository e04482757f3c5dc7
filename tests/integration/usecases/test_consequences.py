"""What a save would lead to, told before it: the same evaluator over the whole table."""

from dataclasses import astuple

import pytest

from shared.domain.on_existing import FIRE, OnExisting
from shared.domain.triggers import read_triggers
from shared.queries.trigger_states import lock_all_states
from shared.usecases.consequences import Consequence, consequences_of
from tests.builders import a_trigger
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CRON,
    DAILY,
    DATE,
    DAY,
    INTERVAL,
    OVERDUE,
    a_known,
    at,
    created,
    poison_cell,
    save,
    write,
)

CONSUME = OnExisting(mode="consume")
OPEN = [{"column": "amount", "op": "gt", "value": 0}]


@pytest.fixture
def table(conn):
    return insert_table(conn)


def a_date(**parts):
    """Return a date trigger without id."""
    return a_trigger(schedule=DATE, **parts)


def _told(conn, table, *raw, now=NOW, on_existing=FIRE, **options):
    triggers = [read.trigger for read in read_triggers(list(raw), table.columns)]
    states = {state.trigger_id: state for state in lock_all_states(conn, table.id)}
    return consequences_of(
        conn, table, triggers, states, now=now, on_existing=on_existing, **options
    )


def test_a_new_trigger_fires_every_overdue_row_and_later_those_of_the_day(conn, table):
    write(conn, table, OVERDUE, "2020-01-01", AHEAD, "2099-01-01", "soon", None)

    (told,) = _told(conn, table, a_date())

    assert told == Consequence(
        trigger_id=None,
        kind="date_column_reached",
        fires_next_tick=2,
        oldest_due_at=at("2020-01-01 00:00"),
        fires_within_24_hours=1,
    )


def test_ledger_and_when_and_unreadable_cells_are_considered(conn, table):
    *_, spoiled = write(
        conn,
        table,
        {"c2": OVERDUE, "c3": 1},
        {"c2": OVERDUE, "c3": 0},
        {"c2": OVERDUE, "c3": 1},
    )
    save(conn, table, a_known(schedule=DATE))
    assert created(conn) == 3
    write(conn, table, {"c2": OVERDUE, "c3": 5}, {"c2": OVERDUE, "c3": 0})
    poison_cell(conn, spoiled, "c3")

    known = _told(conn, table, a_known(schedule=DATE, when=OPEN))[0]
    new = _told(conn, table, a_date(when=OPEN))[0]

    assert (known.fires_next_tick, new.fires_next_tick) == (1, 2)


def test_what_returns_keeps_its_ledger_and_its_old_anchor(conn, table):
    write(conn, table, OVERDUE)
    clock = {"id": "trg_00000000cccc", "schedule": CRON}
    save(conn, table, a_known(schedule=DATE), a_known(**clock))
    created(conn)
    save(conn, table)
    later = NOW + 3 * DAY

    dates, cron = _told(conn, table, a_known(schedule=DATE), a_known(**clock), now=later)
    other = {**DATE, "offset_minutes": 60}
    edited = _told(conn, table, a_known(schedule=other), now=later)[0]
    new = _told(conn, table, a_trigger(schedule=CRON), now=later)[0]

    assert (dates.fires_next_tick, edited.fires_next_tick) == (0, 0)
    assert (cron.fires_next_tick, new.fires_next_tick) == (1, 0)


def test_a_clock_tells_its_first_windows_and_those_of_the_day(conn, table):
    told = _told(
        conn,
        table,
        a_trigger(schedule=INTERVAL),
        a_trigger(schedule={"type": "daily", "at": "23:59"}),
        a_trigger(schedule={"type": "cron", "expression": "0 0 30 2 *"}),
    )

    every = INTERVAL["every_seconds"]
    assert [one.fires_next_tick for one in told] == [1, 0, 0]
    assert [one.fires_within_24_hours for one in told] == [86400 // every, 1, 0]
    assert told[0].oldest_due_at == NOW
    assert told[0].first_windows[0] - NOW == (told[0].first_windows[1] - NOW) / 2
    assert told[1].first_windows[0] == at("2026-07-25 23:59")
    assert told[2].first_windows == ()


@pytest.mark.parametrize("schedule", [INTERVAL, DAILY, CRON, DATE])
def test_what_is_told_is_what_the_tick_does(conn, table, schedule):
    write(conn, table, OVERDUE)

    (told,) = _told(conn, table, a_known(schedule=schedule))
    save(conn, table, a_known(schedule=schedule))

    assert created(conn) == told.fires_next_tick
    (again,) = _told(conn, table, a_known(schedule=schedule))
    assert again.fires_next_tick == 0


def test_a_disabled_trigger_fires_nothing(conn, table):
    write(conn, table, OVERDUE)

    dates, clock = _told(
        conn, table, a_date(enabled=False), a_trigger(schedule=INTERVAL, enabled=False)
    )

    assert astuple(dates)[2:] == astuple(clock)[2:] == (0, None, 0, 0, 0, False, ())


def test_the_choice_for_overdue_values_is_told_of_the_triggers_it_concerns(conn, table):
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, *[{"c2": OVERDUE, "c3": number} for number in range(5)], AHEAD)

    kept, consumed = _told(
        conn, table, a_known(schedule=DATE), a_date(when=OPEN), on_existing=CONSUME
    )
    drip = OnExisting(mode="drip", per_minute=2)
    _, dripping = _told(conn, table, a_known(schedule=DATE), a_date(when=OPEN), on_existing=drip)

    assert (kept.fires_next_tick, kept.consumed) == (5, 0)
    assert (consumed.fires_next_tick, consumed.consumed, consumed.oldest_due_at) == (0, 5, None)
    assert (dripping.fires_next_tick, dripping.held_back) == (2, 2)
    assert dripping.fires_within_24_hours == 2
    assert dripping.oldest_due_at == at(OVERDUE)


def test_rows_that_time_does_not_suffice_for_are_told(conn, table):
    write(conn, table, OVERDUE)

    (told,) = _told(conn, table, a_date(), seconds=0)

    assert (told.fires_next_tick, told.truncated) == (0, True)


def test_nothing_is_written(conn, table):
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, OVERDUE)
    conn.execute("SET default_transaction_read_only = on")

    (read,) = read_triggers([a_date()], table.columns)

    (told,) = consequences_of(conn, table, [read.trigger], {}, now=NOW)

    assert told.fires_next_tick == 1


def test_a_drip_that_goes_on_is_told(conn, table):
    write(conn, table, *[OVERDUE] * 5)
    drip = OnExisting(mode="drip", per_minute=2)
    save(conn, table, a_known(schedule=DATE), on_existing=drip)

    (before,) = _told(conn, table, a_known(schedule=DATE))
    assert created(conn) == before.fires_next_tick == 2
    (told,) = _told(conn, table, a_known(schedule=DATE))

    assert (told.fires_next_tick, told.held_back, told.fires_within_24_hours) == (0, 3, 3)
    assert told.oldest_due_at == at(OVERDUE)
