"""The due pass over clock triggers: whose next look has come, and when the one after is."""

from datetime import timedelta
from math import inf

import pytest

from shared.queries.due_tables import claim_table
from shared.usecases import due_clocks
from shared.usecases.due_pass import due_pass, next_due_at
from shared.usecases.manage_tables import restore_table, trash_table
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    CLOCKS,
    CRON,
    DAILY,
    DAY,
    HOUR,
    INTERVAL,
    MINUTE,
    OTHER_ID,
    TRIGGER_ID,
    a_known,
    end_runs,
    forbid_runs_of,
    poison_table,
    save,
    state_of,
)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine is, a table gets all its looks in one pass."""
    monkeypatch.setattr(due_clocks, "LOCK_SECONDS", inf)


def _born(conn, *, now=NOW, **options):
    """Return how many runs a due pass makes."""
    return len(due_pass(conn, now=now, **options).references)


@pytest.mark.parametrize("schedule", CLOCKS)
def test_a_clock_fires_when_its_look_has_come_and_plans_the_next(conn, schedule):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule), now=NOW - DAY)
    due_pass(conn, now=NOW - DAY + timedelta(seconds=1))
    end_runs(conn)
    windows = {"interval": NOW - 23 * HOUR, "daily": NOW, "cron": NOW}
    window = windows[schedule["type"]]
    assert next_due_at(conn) == window

    assert _born(conn, now=window - timedelta(seconds=1)) == 0
    assert _born(conn, now=window) == 1

    assert state_of(conn).last_window_at == window
    assert state_of(conn).next_due_at > window


def test_a_fenced_clock_is_looked_at_again_in_five_seconds(conn):
    save(conn, insert_table(conn), a_known(schedule=INTERVAL))
    assert _born(conn) == 1

    assert _born(conn, now=NOW + HOUR) == 0

    assert next_due_at(conn) == NOW + HOUR + timedelta(seconds=5)
    end_runs(conn)
    assert _born(conn, now=NOW + HOUR + timedelta(seconds=5)) == 1


def test_the_clocks_of_a_table_hold_its_lock_for_a_second_and_the_next_pass_goes_on(
    conn, monkeypatch
):
    monkeypatch.setattr(due_clocks, "LOCK_SECONDS", 0)
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL), a_known(id=OTHER_ID, schedule=INTERVAL))

    passes = [due_pass(conn, now=NOW) for _ in range(3)]

    assert [len(each.references) for each in passes] == [1, 1, 0]
    assert [each.more for each in passes] == [True, True, False]


def test_a_window_that_the_ledger_has_is_passed(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DAILY), now=NOW - HOUR)
    assert _born(conn) == 1
    end_runs(conn)
    save(conn, table, a_known(schedule={**DAILY, "at": "20:00"}), now=NOW + HOUR)
    save(conn, table, a_known(schedule=DAILY), now=NOW + HOUR)

    assert _born(conn, now=NOW + HOUR) == 0

    state = state_of(conn)
    assert (state.last_window_at, state.next_due_at) == (NOW, NOW + DAY)


def test_a_clock_that_is_broken_or_off_wants_no_look(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=CRON))
    conn.execute("UPDATE custom_table SET triggers = jsonb_set(triggers, '{0,enabled}', 'false')")

    assert _born(conn, now=NOW + DAY) == 0

    assert next_due_at(conn) is None


def test_a_clock_of_a_trashed_table_is_silent(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    trash_table(conn, table.id, now=NOW)

    assert _born(conn) == 0
    assert next_due_at(conn) is None

    restore_table(conn, table.id, now=NOW)
    assert _born(conn) == 1


def test_a_clock_that_fails_stops_no_other_and_is_left_alone_for_a_minute(conn):
    table = insert_table(conn)
    save(conn, table, a_known(), a_known(id=OTHER_ID))
    forbid_runs_of(conn, TRIGGER_ID)

    assert _born(conn) == 1

    assert state_of(conn, TRIGGER_ID).next_due_at == NOW + MINUTE


def test_a_table_of_clocks_that_cannot_be_read_is_left_alone_for_a_minute(conn):
    poisoned, healthy = insert_table(conn), insert_table(conn)
    save(conn, poisoned, a_known(id=OTHER_ID))
    save(conn, healthy, a_known())
    poison_table(conn, poisoned)

    assert _born(conn) == 1

    assert state_of(conn, OTHER_ID).next_due_at == NOW + MINUTE


def test_clocks_of_a_table_that_a_tick_has_are_left_to_it(conn, other_conn):
    table = insert_table(conn)
    save(conn, table, a_known())

    with other_conn.transaction():
        claim_table(other_conn, table.id)
        result = due_pass(conn, now=NOW)

    assert (result.looked_at, result.more) == (0, False)
    assert next_due_at(conn) == NOW
