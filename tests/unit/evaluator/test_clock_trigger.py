"""Whether a clock trigger is due."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.evaluator.clock_trigger import judge_clock
from tests.builders import NOW, SCHEDULES, a_read_trigger, a_state

HOUR = timedelta(hours=1)
ANCHOR = NOW - timedelta(hours=5, minutes=30)
LATEST = NOW - timedelta(minutes=30)


def judge(*, schedule=SCHEDULES["interval"], consumed=(), active_run=False, now=NOW, **state):
    state = a_state(kind=schedule["type"], schedule=schedule, **{"anchor_at": ANCHOR} | state)
    asked = []

    def is_consumed(identity):
        asked.append(identity)
        return identity in consumed

    verdict = judge_clock(
        a_read_trigger(schedule=schedule),
        state,
        active_run=active_run,
        consumed=is_consumed,
        now=now,
    )
    assert len(asked) <= 1
    return verdict


def test_only_the_latest_window_is_due():
    verdict = judge()

    assert verdict.due_now
    assert verdict.due_at == verdict.window == LATEST
    assert verdict.identity == "2026-07-25T08:30:00Z"
    assert verdict.window_key == "20260725T0830"
    assert verdict.next_due_at == LATEST + HOUR


def test_nothing_is_due_before_the_first_window():
    verdict = judge(anchor_at=NOW + HOUR)

    assert not verdict.due_now
    assert verdict.due_at is verdict.window is verdict.identity is verdict.window_key is None
    assert verdict.next_due_at == NOW + HOUR


def test_the_first_window_of_an_interval_is_its_anchor():
    verdict = judge(anchor_at=NOW)

    assert verdict.due_at == NOW
    assert verdict.next_due_at == NOW + HOUR


def test_a_consumed_window_is_not_due_again():
    verdict = judge(last_window_at=LATEST)

    assert not verdict.due_now
    assert verdict.window is None
    assert verdict.next_due_at == LATEST + HOUR


def test_a_window_in_the_ledger_is_not_due_but_is_passed():
    verdict = judge(consumed={"2026-07-25T08:30:00Z"})

    assert verdict.due_at is None
    assert not verdict.due_now
    assert verdict.window == LATEST
    assert verdict.next_due_at == LATEST + HOUR


def test_an_active_run_fences_the_window_that_is_still_told():
    verdict = judge(active_run=True)

    assert verdict.due_at == LATEST
    assert not verdict.due_now
    assert verdict.next_due_at == NOW + timedelta(seconds=5)


def test_an_active_run_with_nothing_due_waits_for_the_next_window():
    verdict = judge(active_run=True, last_window_at=LATEST)

    assert verdict.due_at is None
    assert verdict.next_due_at == LATEST + HOUR


def test_an_active_run_with_a_window_in_the_ledger_waits_for_the_next_one():
    verdict = judge(active_run=True, consumed={"2026-07-25T08:30:00Z"})

    assert verdict.next_due_at == LATEST + HOUR


def test_a_daily_window_is_known_by_its_instant_and_labelled_with_its_local_day():
    schedule = {"type": "daily", "at": "01:30", "timezone": "Asia/Taipei"}
    anchor = datetime(2026, 7, 24, 16, 0, tzinfo=UTC)

    verdict = judge(schedule=schedule, anchor_at=anchor)

    assert verdict.identity == "2026-07-24T17:30:00Z"
    assert verdict.window_key == "20260725"
    assert verdict.next_due_at == datetime(2026, 7, 25, 17, 30, tzinfo=UTC)


def test_an_edited_schedule_fires_its_own_window_of_the_same_day():
    morning = judge(
        schedule={"type": "daily", "at": "08:00"},
        anchor_at=NOW.replace(hour=0),
        consumed={"2026-07-25T01:30:00Z"},
    )

    assert morning.due_at == NOW.replace(hour=8)


def test_cron_never_fires_what_lay_before_its_anchor():
    schedule = {"type": "cron", "expression": "0 9 * * *"}

    assert judge(schedule=schedule, anchor_at=NOW).due_at is None
    assert judge(schedule=schedule, anchor_at=NOW - timedelta(minutes=1)).due_at == NOW


def test_a_cron_expression_without_any_day_is_never_due():
    verdict = judge(schedule={"type": "cron", "expression": "0 0 30 2 *"})

    assert verdict.due_at is None
    assert verdict.next_due_at is None


def test_a_date_trigger_has_no_windows():
    with pytest.raises(TypeError):
        judge(schedule=SCHEDULES["date_column_reached"])
