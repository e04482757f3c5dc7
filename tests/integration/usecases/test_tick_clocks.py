"""Table-level runs: windows of interval, daily and cron, and their one active run (spec 1 §6)."""

from datetime import timedelta

import pytest

from shared.queries.custom_tables import get_table
from shared.usecases.manage_work import delete_run, retry_run
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    CLOCKS,
    CRON,
    DAILY,
    DAY,
    HOUR,
    INTERVAL,
    MINUTE,
    a_known,
    arm,
    at,
    created,
    end_runs,
    fired,
    ledger,
    runs,
    save,
    state_of,
)


@pytest.mark.parametrize(
    ("schedule", "identity", "key"),
    [
        (INTERVAL, "2026-07-25T08:30:00Z", "20260725T0830"),
        ({"type": "daily", "at": "04:00"}, "2026-07-25T04:00:00Z", "20260725"),
        (
            {"type": "daily", "at": "01:30", "timezone": "Asia/Taipei"},
            "2026-07-24T17:30:00Z",
            "20260725",
        ),
        (
            {"type": "cron", "expression": "30 16 * * *", "timezone": "Asia/Taipei"},
            "2026-07-25T08:30:00Z",
            "20260725T1630",
        ),
    ],
)
def test_a_run_has_its_window_and_no_record(conn, schedule, identity, key):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule), now=at("2026-07-24 20:30"))

    assert created(conn) == 1

    [run] = runs(conn)
    assert (run["kind"], run["record_id"], run["snapshot"]) == (schedule["type"], None, None)
    assert (run["identity"], run["window_key"]) == (identity, key)
    assert run["scheduled_for"].isoformat() == identity.replace("Z", "+00:00")
    assert ledger(conn) == [(0, identity)]
    assert state_of(conn).last_window_at == run["scheduled_for"]


@pytest.mark.parametrize("schedule", CLOCKS)
@pytest.mark.parametrize("status", ["pending", "running"])
def test_while_a_run_is_active_no_later_window_is_taken(conn, schedule, status):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule), now=NOW - DAY)
    assert created(conn) == 1
    if status == "running":
        _start(conn)

    assert created(conn, now=NOW + 3 * DAY) == 0

    state = state_of(conn)
    assert state.last_window_at == runs(conn)[0]["scheduled_for"]
    assert len(ledger(conn)) == 1
    told = arm(conn, table, now=NOW + 3 * DAY)
    assert (told["active_run"], told["due_now"]) == (True, False)
    assert told["due_at"] is not None


def _start(conn):
    conn.execute(
        "UPDATE trigger_run SET status = 'running', worker_id = 1, leased_until = '2026-01-01Z',"
        " announce_at = NULL, next_attempt_at = NULL, updated_at = '2026-01-01Z'"
    )


def test_after_any_downtime_the_latest_window_alone_is_taken(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))

    counts = [created(conn, now=NOW + 5 * HOUR) for _ in range(3)]

    assert counts == [1, 0, 0]
    assert fired(conn) == [(None, "2026-07-25T14:00:00Z")]


def test_after_a_slow_run_the_latest_window_alone_is_taken(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)
    for hours in range(1, 4):
        assert created(conn, now=NOW + hours * HOUR) == 0
    end_runs(conn)

    assert created(conn, now=NOW + 3 * HOUR + MINUTE) == 1

    assert fired(conn)[1:] == [(None, "2026-07-25T12:00:00Z")]


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_run_has_consumed_its_window_however_it_ended(conn, status):
    save(conn, insert_table(conn), a_known(schedule=INTERVAL))
    created(conn)
    end_runs(conn, status=status)

    assert created(conn, now=NOW + 59 * MINUTE) == 0
    assert created(conn, now=NOW + 60 * MINUTE) == 1


def test_deleting_runs_arms_nothing_again(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)
    end_runs(conn)

    delete_run(conn, table, runs(conn)[0]["id"])

    assert created(conn) == 0


def test_a_retry_puts_the_fence_up_again(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)
    end_runs(conn, status="failed")

    retry_run(conn, get_table(conn, table.id), runs(conn)[0]["id"], now=NOW)

    assert created(conn, now=NOW + 2 * HOUR) == 0
    end_runs(conn)
    assert created(conn, now=NOW + 2 * HOUR) == 1


def test_when_on_interval_and_daily_is_never_read(conn):
    table = insert_table(conn)
    when = [{"column": "title", "op": "eq", "value": "never"}]
    save(conn, table, a_known(schedule=DAILY, when=when))
    conn.execute("UPDATE custom_table SET columns = '[]'")

    assert created(conn) == 1


def test_two_triggers_of_one_table_do_not_fence_each_other(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL), a_known(id="trg_00000000bbbb", schedule=DAILY))

    assert created(conn) == 2


def test_a_clock_that_stepped_back_repeats_no_window(conn):
    save(conn, insert_table(conn), a_known(schedule=INTERVAL))
    created(conn, now=NOW + 2 * HOUR)
    end_runs(conn)

    assert created(conn, now=NOW + HOUR) == 0
    assert state_of(conn).last_window_at == NOW + 2 * HOUR
    assert created(conn, now=NOW + 3 * HOUR) == 1


@pytest.mark.parametrize("schedule", CLOCKS)
def test_the_tick_plans_the_next_look(conn, schedule):
    save(conn, insert_table(conn), a_known(schedule=schedule), now=NOW - DAY)
    created(conn)
    windows = {"interval": NOW + HOUR, "daily": NOW + DAY, "cron": NOW + DAY}
    assert state_of(conn).next_due_at == windows[schedule["type"]]

    later = NOW + 2 * DAY
    created(conn, now=later)

    assert state_of(conn).next_due_at == later + timedelta(seconds=5)


def test_a_cron_that_never_matches_is_never_looked_at(conn):
    save(conn, insert_table(conn), a_known(schedule={**CRON, "expression": "0 0 30 2 *"}))

    assert created(conn, now=NOW + 400 * DAY) == 0

    assert state_of(conn).next_due_at is None
