"""Windows of the clock schedules (interval, daily, cron): anchor, latest, next, key.

All instants are aware UTC. Nothing here walks minutes: the cost of an answer does not grow with
the time between two windows, nor with the length of an outage.
"""

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import assert_never

from shared.schedule.cron import SHAPES_RECUR_WITHIN_YEARS
from shared.schedule.model import Cron, Daily, Interval, Schedule, TableSchedule
from shared.schedule.zones import farthest_wall, gap_around, start_of_day, to_utc, wall_of

_MINUTE = timedelta(minutes=1)
_LAST_ORDINAL = date.max.toordinal()
# Zone rules with a year in them end before 2100. From then on a year's clock changes, like the days
# that a cron expression matches, depend on nothing but the shape of the year.
_RULES_WITHOUT_YEARS = 2100


def anchor_for(schedule: Schedule, *, saved_at: datetime) -> datetime:
    """Return the instant that windows are counted from, a whole second: the moment of the save.

    For daily it is the start of the local day of the save. A date column has no windows; its
    anchor only says when it was saved.
    """
    saved_at = saved_at.replace(microsecond=0)
    if isinstance(schedule, Daily) and (wall := wall_of(saved_at, schedule.zone)) is not None:
        return start_of_day(wall.date(), schedule.zone) or saved_at
    return saved_at


def due_window(
    schedule: TableSchedule, *, anchor: datetime, last_consumed: datetime | None, now: datetime
) -> datetime | None:
    """Return the latest window at or before ``now`` not yet consumed, or None.

    Missed windows are coalesced: however long the outage, at most one window is due.
    """
    latest = latest_window(schedule, anchor=anchor, now=now)
    if latest is None or (last_consumed is not None and latest <= last_consumed):
        return None
    return latest


def latest_window(schedule: TableSchedule, *, anchor: datetime, now: datetime) -> datetime | None:
    """Return the latest window at or before ``now``, or None if there is none since the anchor.

    A window at the very anchor counts for interval and daily, not for cron.
    """
    match schedule:
        case Cron():
            return _latest_of_cron(schedule, anchor=anchor, now=now)
        case Daily():
            return _latest_of_daily(schedule, anchor=anchor, now=now)
        case Interval():
            return _latest_of_interval(schedule, anchor=anchor, now=now)
        case _:
            assert_never(schedule)


def next_window(schedule: TableSchedule, *, anchor: datetime, after: datetime) -> datetime | None:
    """Return the first window strictly after ``after``, or None if there is none up to year 9999.

    No window lies before the anchor; one at the very anchor counts for interval and daily.
    """
    match schedule:
        case Cron():
            return _next_of_cron(schedule, after=after if after > anchor else anchor)
        case Daily():
            return _next_of_daily(schedule, anchor=anchor, after=after)
        case Interval():
            return _next_of_interval(schedule, anchor=anchor, after=after)
        case _:
            assert_never(schedule)


def upcoming_windows(
    schedule: TableSchedule, *, after: datetime, count: int, anchor: datetime | None = None
) -> list[datetime]:
    """Return the next ``count`` windows strictly after ``after``, fewer where time ends.

    Without an anchor ``after`` is the anchor: an interval's windows are counted from there.
    """
    anchor = after if anchor is None else anchor
    windows: list[datetime] = []
    while len(windows) < count:
        window = next_window(schedule, anchor=anchor, after=after)
        if window is None:
            break
        windows.append(window)
        after = window
    return windows


def window_key(schedule: TableSchedule, window: datetime) -> str:
    """Return the label of a window: ``YYYYMMDD`` for daily, else ``YYYYMMDDTHHMM``.

    Daily has the slot's own local date, also when its wall time did not exist and resolved into
    the next day; cron is in local time, interval in UTC.
    """
    match schedule:
        case Interval():
            return _minute_key(window.astimezone(UTC))
        case Cron():
            return _minute_key(window.astimezone(schedule.zone))
        case Daily():
            day = window.astimezone(schedule.zone).date()
            eve = day.toordinal() - 1
            if _slot(schedule, day.toordinal()) != window and _slot(schedule, eve) == window:
                day = date.fromordinal(eve)
            return day.isoformat().replace("-", "")
        case _:
            assert_never(schedule)


def never_matches(schedule: Schedule) -> bool:
    """Tell whether the schedule is a cron expression without a matching day, as 30 February."""
    return isinstance(schedule, Cron) and schedule.rule.never_matches


def skipped_before(cron: Cron, window: datetime, *, since: datetime) -> bool:
    """Tell whether a match behind ``since`` and before ``window``, the next, does not exist."""
    wall = _minute_following(farthest_wall(since, cron.zone), cron.zone)
    match = None if wall is None else cron.rule.at_or_after(wall)
    return match is not None and match.replace(fold=0) != window.astimezone(cron.zone)


def _latest_of_interval(interval: Interval, *, anchor: datetime, now: datetime) -> datetime | None:
    if now < anchor:
        return None
    step = timedelta(seconds=interval.every_seconds)
    return anchor + (now - anchor) // step * step


def _next_of_interval(interval: Interval, *, anchor: datetime, after: datetime) -> datetime | None:
    if after < anchor:
        return anchor
    step = timedelta(seconds=interval.every_seconds)
    try:
        return anchor + ((after - anchor) // step + 1) * step
    except OverflowError:
        return None


def _latest_of_daily(daily: Daily, *, anchor: datetime, now: datetime) -> datetime | None:
    today = _local_ordinal(farthest_wall(now, daily.zone))
    # Usually today's or yesterday's. One day more where yesterday was left out.
    for ordinal in (today, today - 1, today - 2):
        slot = _slot(daily, ordinal)
        if slot is not None and slot <= now:
            return slot if slot >= anchor else None
    return None


def _next_of_daily(daily: Daily, *, anchor: datetime, after: datetime) -> datetime | None:
    today = _local_ordinal(farthest_wall(max(anchor, after), daily.zone))
    # Yesterday's may still come, if its wall time was skipped and resolved into today.
    for ordinal in (today - 1, today, today + 1):
        slot = _slot(daily, ordinal)
        if slot is not None and slot > after and slot >= anchor:
            return slot
    return None


def _local_ordinal(wall: datetime | None) -> int:
    return 0 if wall is None else wall.toordinal()


def _slot(daily: Daily, ordinal: int) -> datetime | None:
    """Return the target of a local day, or None outside the years 1 to 9999.

    Where a date was left out (Apia, 2011-12-30), the clock went forward by just one day, so that
    reading it with the offset before gives the very instant of the next date's target.
    """
    if not 1 <= ordinal <= _LAST_ORDINAL:
        return None
    return to_utc(datetime.combine(date.fromordinal(ordinal), daily.at, daily.zone))


def _latest_of_cron(cron: Cron, *, anchor: datetime, now: datetime) -> datetime | None:
    wall = farthest_wall(now, cron.zone)
    while wall is not None and (wall := cron.rule.at_or_before(wall)) is not None:
        instant = to_utc(wall)
        if instant is None or instant <= anchor:
            return None
        gap = gap_around(wall, instant, cron.zone)
        if gap is None:
            return instant
        wall, _ = gap
    return None


def _next_of_cron(cron: Cron, *, after: datetime) -> datetime | None:
    wall = _minute_following(farthest_wall(after, cron.zone), cron.zone)
    while wall is not None and (wall := cron.rule.at_or_after(wall)) is not None:
        instant = to_utc(wall)
        if instant is None:
            return None
        gap = gap_around(wall, instant, cron.zone)
        if gap is None:
            return instant
        if wall.year > max(after.year, _RULES_WITHOUT_YEARS) + SHAPES_RECUR_WITHIN_YEARS:
            return None  # every match falls into a skipped hour
        wall = _minute_following(gap[1], cron.zone)
    return None


def _minute_following(wall: datetime | None, zone: tzinfo) -> datetime | None:
    """Return a wall in the first minute that begins after ``wall``; None after year 9999."""
    if wall is None:
        return datetime.min.replace(tzinfo=zone)
    try:
        return wall + _MINUTE
    except OverflowError:
        return None


def _minute_key(moment: datetime) -> str:
    # Not strftime: its %Y has no leading zeros on every platform.
    return moment.isoformat(timespec="minutes")[:16].replace("-", "").replace(":", "")
