"""The search over the calendar against a walk over every day, for expressions however rare."""

from datetime import UTC, date, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.schedule import due_window, parse_schedule, upcoming_windows
from shared.schedule.windows import never_matches
from tests.unit.schedule.expressions import expressions

# More than the longest time between two matching days: 40 years.
DAYS = 41 * 366
MINUTE = timedelta(minutes=1)

instants = st.integers(0, 9900 * 365 * 24 * 60).map(
    lambda minutes: datetime(50, 1, 1, tzinfo=UTC) + minutes * MINUTE
)


def first_matching_day(expression, start, step):
    days = (date.fromordinal(start.toordinal() + step * n) for n in range(DAYS))
    return next((day for day in days if expression.matches_day(day)), None)


@settings(deadline=None, max_examples=150)
@given(expression=expressions(), now=instants)
def test_the_latest_window_is_on_the_latest_matching_day(expression, now):
    schedule = parse_schedule({"type": "cron", "expression": str(expression)})
    anchor = datetime(1, 1, 1, tzinfo=UTC)

    due = due_window(schedule, anchor=anchor, last_consumed=None, now=now)

    times = sorted((h, m) for h in expression.hour.values for m in expression.minute.values)
    passed = [t for t in times if t <= (now.hour, now.minute)]
    if passed and expression.matches_day(now):
        day, (hour, minute) = now.date(), passed[-1]
    else:
        day = first_matching_day(expression, now.date() - timedelta(days=1), -1)
        hour, minute = times[-1]
    expected = day and datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
    assert due == expected
    assert never_matches(schedule) == (day is None)


@settings(deadline=None, max_examples=150)
@given(expression=expressions(), after=instants)
def test_the_next_window_is_on_the_next_matching_day(expression, after):
    schedule = parse_schedule({"type": "cron", "expression": str(expression)})

    upcoming = upcoming_windows(schedule, after=after, count=1)

    times = sorted((h, m) for h in expression.hour.values for m in expression.minute.values)
    ahead = [t for t in times if t > (after.hour, after.minute)]
    if ahead and expression.matches_day(after):
        day, (hour, minute) = after.date(), ahead[0]
    else:
        day = first_matching_day(expression, after.date() + timedelta(days=1), 1)
        hour, minute = times[0]
    expected = day and datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
    assert upcoming == ([] if day is None else [expected])
