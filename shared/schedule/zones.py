"""Time zones from the packaged zone list alone, and the odd hours of local time.

Only here and in ``cells.py`` does local time meet UTC. A "wall" is a datetime in its zone.
"""

import zoneinfo
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache

# The machine's own zone files differ between machines and hold names that mean something else on
# each (localtime) or count leap seconds (right/...): only the pinned package is asked.
zoneinfo.reset_tzpath(to=())
ZONE_NAMES = frozenset(zoneinfo.available_timezones() - {"Factory", "localtime", "posixrules"})

_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)
_LAST_WALL = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)


def find_zone(name: str) -> tzinfo | None:
    """Return the zone of that exact IANA name, or None; the same object for the same name."""
    return _load_zone(name) if name in ZONE_NAMES else None


@cache
def _load_zone(name: str) -> tzinfo:
    # no_cache: an object that someone made earlier may come from the machine's files.
    return UTC if name == "UTC" else zoneinfo.ZoneInfo.no_cache(name)


def to_utc(wall: datetime) -> datetime | None:
    """Return the wall's instant, or None outside the years 1 to 9999.

    With fold 0 a repeated wall time is its first occurrence, and one that was skipped is read with
    the offset in force before the clock went forward.
    """
    try:
        return wall.astimezone(UTC)
    except OverflowError:
        return None


def wall_of(instant: datetime, zone: tzinfo) -> datetime | None:
    """Return the wall time at that instant; the last there is after year 9999, None before 1."""
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return None if instant.year == 1 else _LAST_WALL.replace(tzinfo=zone)


def farthest_wall(instant: datetime, zone: tzinfo) -> datetime | None:
    """Return the latest wall time that the clock has shown up to that instant, None before year 1.

    While an hour is being repeated this is the last second before the clock went back: all wall
    times up to it have had their first occurrence, and none after it.
    """
    wall = wall_of(instant, zone)
    if wall is None or not wall.fold:
        return wall
    first_pass = wall.replace(fold=0).astimezone(UTC)
    return (_offset_change(zone, since=first_pass, until=instant) - _SECOND).astimezone(zone)


def gap_around(wall: datetime, instant: datetime, zone: tzinfo) -> tuple[datetime, datetime] | None:
    """Return None if the wall time exists, else the last second before its gap and the last in it.

    ``instant`` is what ``to_utc`` gave for ``wall``.
    """
    shown = instant.astimezone(zone)
    if shown == wall:
        return None
    change = _offset_change(zone, since=instant - (shown - wall), until=instant)
    return (change - _SECOND).astimezone(zone), change.astimezone(zone) - _SECOND


def skipped_walls(
    since: datetime, until: datetime, zone: tzinfo
) -> list[tuple[datetime, datetime]]:
    """Return the wall times that the clock jumped over between two instants, in order.

    Each as the first one that was skipped and the first one behind; as walls of the zone.
    """
    skipped = []
    while since < until:
        following = since + _HOUR
        jump = _offset(following, zone) - _offset(since, zone)
        if jump > timedelta(0):
            behind = _offset_change(zone, since=since, until=following).astimezone(zone)
            skipped.append((behind - jump, behind))
        since = following
    return skipped


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def is_repeated(wall: datetime) -> bool:
    """Tell whether a wall time that exists comes twice, since the clock goes back over it."""
    return wall.replace(fold=0).utcoffset() != wall.replace(fold=1).utcoffset()


def start_of_day(day: date, zone: tzinfo) -> datetime | None:
    """Return the first instant of a local day that exists, None outside the years 1 to 9999."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    instant = to_utc(midnight)
    if instant is None or (gap := gap_around(midnight, instant, zone)) is None:
        return instant
    return gap[0].astimezone(UTC) + _SECOND


def _offset_change(zone: tzinfo, *, since: datetime, until: datetime) -> datetime:
    """Return the first whole second after ``since`` that has the offset of ``until``."""
    until = until.replace(microsecond=0)
    offset = until.astimezone(zone).utcoffset()
    same, other = 0, (until - since.replace(microsecond=0)) // _SECOND
    while other - same > 1:
        middle = (same + other) // 2
        if (until - timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset:
            same = middle
        else:
            other = middle
    return until - timedelta(seconds=same)
