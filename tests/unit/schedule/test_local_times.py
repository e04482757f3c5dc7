"""Windows as people are told of them, spring and autumn."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.schedule import parse_schedule, upcoming_windows
from shared.schedule.local_times import local_windows


def told(schedule, *, after, count=4):
    read = parse_schedule(schedule)
    after = datetime.fromisoformat(after).replace(tzinfo=UTC)
    windows = upcoming_windows(read, after=after, count=count)
    return [
        (one.at.isoformat()[:16], one.local[:16], one.offset, list(one.notes))
        for one in local_windows(read, windows, since=after)
    ]


def daily(at, zone="America/New_York"):
    return {"type": "daily", "at": at, "timezone": zone}


def cron(expression, zone="America/New_York"):
    return {"type": "cron", "expression": expression, "timezone": zone}


def test_a_daily_wall_time_that_is_skipped_in_spring():
    assert told(daily("02:30"), after="2026-03-07T08:00") == [
        ("2026-03-08T07:30", "2026-03-08T03:30", "-04:00", ["offset_changes", "skipped_wall_time"]),
        ("2026-03-09T06:30", "2026-03-09T02:30", "-04:00", []),
        ("2026-03-10T06:30", "2026-03-10T02:30", "-04:00", []),
        ("2026-03-11T06:30", "2026-03-11T02:30", "-04:00", []),
    ]


def test_a_daily_wall_time_that_is_repeated_in_autumn():
    assert told(daily("01:30"), after="2026-10-31T06:00", count=2) == [
        ("2026-11-01T05:30", "2026-11-01T01:30", "-04:00", ["repeated_wall_time"]),
        ("2026-11-02T06:30", "2026-11-02T01:30", "-05:00", ["offset_changes"]),
    ]


def test_a_cron_minute_that_is_skipped_in_spring():
    assert told(cron("30 2 * * *"), after="2026-03-07T08:00", count=2) == [
        ("2026-03-09T06:30", "2026-03-09T02:30", "-04:00", ["offset_changes", "window_skipped"]),
        ("2026-03-10T06:30", "2026-03-10T02:30", "-04:00", []),
    ]
    assert told(cron("*/30 1-3 8 3 *"), after="2026-03-08T06:00") == [
        ("2026-03-08T06:30", "2026-03-08T01:30", "-05:00", []),
        ("2026-03-08T07:00", "2026-03-08T03:00", "-04:00", ["offset_changes", "window_skipped"]),
        ("2026-03-08T07:30", "2026-03-08T03:30", "-04:00", []),
        ("2027-03-08T06:00", "2027-03-08T01:00", "-05:00", ["offset_changes"]),
    ]


def test_a_cron_minute_that_is_repeated_in_autumn():
    assert told(cron("30 * * * *"), after="2026-11-01T04:40", count=2) == [
        ("2026-11-01T05:30", "2026-11-01T01:30", "-04:00", ["repeated_wall_time"]),
        ("2026-11-01T07:30", "2026-11-01T02:30", "-05:00", ["offset_changes"]),
    ]


def test_an_interval_is_told_in_utc():
    assert told({"type": "interval", "every_seconds": 3600}, after="2026-03-08T06:30", count=1) == [
        ("2026-03-08T07:30", "2026-03-08T07:30", "+00:00", [])
    ]


def test_a_slot_that_resolves_into_the_next_day_keeps_its_key():
    read = parse_schedule(daily("23:30", "America/Nuuk"))
    since = datetime(2026, 3, 28, 12, tzinfo=UTC)

    [one] = local_windows(read, upcoming_windows(read, after=since, count=1), since=since)

    assert (one.local, one.key) == ("2026-03-29T00:30:00", "20260328")
    assert one.notes == ("offset_changes", "skipped_wall_time")


@pytest.mark.parametrize("year", [1, 2, 9998, 9999])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Taipei", "America/New_York", "Pacific/Apia"])
@pytest.mark.parametrize("schedule", [daily("00:00"), daily("23:59"), cron("*/7 * * * *")])
def test_the_ends_of_time_are_no_exception(schedule, zone, year):
    read = parse_schedule({**schedule, "timezone": zone})
    for since in (datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, 50, tzinfo=UTC)):
        windows = upcoming_windows(read, after=since, count=5)

        shown = local_windows(read, windows, since=since)

        assert [one.at for one in shown] == windows
        zones = {one.offset for one in shown}
        assert all(offset.startswith(("+", "-")) for offset in zones)
        assert timedelta() <= max(windows, default=since) - since
