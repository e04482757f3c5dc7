"""The windows against a walk over every minute, wherever a clock was moved."""

from datetime import time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.schedule import due_window, parse_schedule, upcoming_windows, window_key
from shared.schedule.windows import next_window
from tests.unit.schedule.expressions import expressions_of_the_week
from tests.unit.schedule.minute_walk import DAY, MinuteWalk, clock_changes

# A zone and a year in which its clock was moved forward and back.
PLACES = [
    ("Australia/Lord_Howe", 2026),
    ("Pacific/Apia", 2011),
    ("Africa/Casablanca", 2026),
    ("Europe/Dublin", 2026),
    ("Antarctica/Troll", 2026),
    ("Asia/Gaza", 2026),
    ("America/Sao_Paulo", 2018),
    ("America/New_York", 2026),
    ("Asia/Taipei", 1979),
    ("Asia/Kolkata", 1942),
    ("America/Nuuk", 2026),
    ("America/St_Johns", 2006),
    ("Atlantic/Azores", 2026),
    ("Asia/Tehran", 2021),
]
SECOND = timedelta(seconds=1)

walks = cache(MinuteWalk.around)
changes_of = cache(clock_changes)


@st.composite
def moments(draw, zone, year):
    """A walk around a change of the clock, and two instants in its middle, in order."""
    change = draw(st.sampled_from(changes_of(zone, year)))
    walk = walks(change, zone, days=4)
    near = st.integers(-3 * 3600, 3 * 3600)
    far = st.integers(-2 * 86400, 2 * 86400)
    first, second = (change + SECOND * draw(near | far) for _ in range(2))
    return walk, min(first, second), max(first, second)


@pytest.mark.parametrize(("zone", "year"), PLACES)
def test_each_place_had_its_clock_moved_both_ways_in_that_year(zone, year):
    local = ZoneInfo(zone)

    moved = {
        change.astimezone(local).utcoffset() > (change - SECOND).astimezone(local).utcoffset()
        for change in changes_of(zone, year)
    }

    assert moved == {True, False}


@pytest.mark.parametrize(("zone", "year"), PLACES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_cron_fires_at_each_matching_minute_that_a_clock_shows_for_the_first_time(zone, year, data):
    walk, anchor, now = data.draw(moments(zone, year))
    expression = data.draw(expressions_of_the_week())
    schedule = parse_schedule({"type": "cron", "expression": str(expression), "timezone": zone})
    windows = walk.cron_windows(expression.matches)
    consumed = data.draw(st.none() | st.sampled_from(windows)) if windows else None

    due = due_window(schedule, anchor=anchor, last_consumed=consumed, now=now)
    ahead = [window for window in windows if window > now][:100]
    upcoming = upcoming_windows(schedule, after=now, count=len(ahead))

    latest = max((window for window in windows if anchor < window <= now), default=None)
    assert due == (latest if latest and (consumed is None or latest > consumed) else None)
    assert upcoming == ahead


@pytest.mark.parametrize(("zone", "year"), PLACES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_daily_fires_once_for_each_date_that_was_lived(zone, year, data):
    walk, anchor, now = data.draw(moments(zone, year))
    at = data.draw(st.times() | st.builds(time, st.sampled_from([0, 1, 2, 23]), st.integers(0, 59)))
    at = at.replace(second=0, microsecond=0)
    schedule = parse_schedule({"type": "daily", "at": f"{at:%H:%M}", "timezone": zone})
    slots = [slot for slot in walk.daily_windows(at) if slot[1] > walk.start + DAY]
    windows = [window for _, window in slots]

    due = due_window(schedule, anchor=anchor, last_consumed=None, now=now)
    ahead = [window for window in windows if window > now][:100]
    upcoming = upcoming_windows(schedule, after=now, count=len(ahead))

    assert due == max((window for window in windows if anchor <= window <= now), default=None)
    assert upcoming == ahead
    for day, window in slots:
        assert window_key(schedule, window) == f"{day:%Y%m%d}"


@pytest.mark.parametrize(("zone", "year"), PLACES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_what_was_next_is_what_becomes_due(zone, year, data):
    walk, anchor, now = data.draw(moments(zone, year))
    raw = data.draw(
        st.builds(lambda e: {"type": "cron", "expression": str(e)}, expressions_of_the_week())
        | st.builds(lambda at: {"type": "daily", "at": f"{at:%H:%M}"}, st.times())
    )
    schedule = parse_schedule(raw | {"timezone": zone})

    window = next_window(schedule, anchor=anchor, after=now)

    before = due_window(schedule, anchor=anchor, last_consumed=None, now=window - SECOND)
    assert due_window(schedule, anchor=anchor, last_consumed=None, now=window) == window
    assert before == due_window(schedule, anchor=anchor, last_consumed=None, now=now)
    assert walk.start < window
