"""Bookable slots: the lines of a roster, spread over the days of a horizon, in local time.

A slot is as long on the wall as it was asked for. It is left out where the clock jumps over any of
its minutes; where an hour is repeated, it is there once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple

from shared.schedule.zones import farthest_wall, skipped_walls, to_utc

Resource = str | int | float | bool

MINUTES_OF_A_DAY = 1440

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterLine:
    """When a resource is there: on a weekday (Sunday is 0), or on one day.

    ``key`` is equal of equal resources. Minutes count from the midnight that the day begins with;
    an end beyond 1440 lies on the next day. ``valid_from`` and ``valid_to`` are days of the line
    too, None for no bound.
    """

    resource: Resource
    key: str
    weekdays: frozenset[int] = frozenset()
    day: date | None = None
    start_minute: int
    end_minute: int
    valid_from: date | None = None
    valid_to: date | None = None

    def holds_on(self, day: date) -> bool:
        """Tell whether the line begins on that local day."""
        if self.valid_from is not None and day < self.valid_from:
            return False
        if self.valid_to is not None and day > self.valid_to:
            return False
        return day == self.day if self.day is not None else day.isoweekday() % 7 in self.weekdays


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How a line is divided: slots of ``slot_minutes``, each ``gap_minutes`` after the one before.

    What is left at the end of a line and is shorter than a slot is none.
    """

    slot_minutes: int
    gap_minutes: int = 0
    zone: tzinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Slots that begin from the wall ``after`` up to, and not at, the wall ``until``."""

    after: datetime
    until: datetime

    @classmethod
    def of(cls, now: datetime, *, days: int, zone: tzinfo) -> "Horizon | None":
        """Return what lies ahead of so many local days, the first of them today.

        None at the ends of time.
        """
        # While an hour is being repeated, its slots have begun: they are there once.
        shown = farthest_wall(now, zone)
        try:
            return None if shown is None else cls(after=_minute(shown), until=_days(shown, days))
        except OverflowError:
            return None

    def from_wall(self, wall: datetime) -> "Horizon":
        """Return what is left of it from a wall on."""
        return replace(self, after=max(self.after, wall))


class Slot(NamedTuple):
    """A slot; ``start`` and ``end`` are walls of the grid's zone."""

    start: datetime
    key: str
    end: datetime
    resource: Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """All slots that begin from the wall ``after`` up to ``until``, by start and resource."""

    after: datetime
    until: datetime
    slots: Sequence[Slot]


def first_stretch(
    lines: Sequence[RosterLine], grid: Grid, horizon: Horizon, *, size: int
) -> Stretch:
    """Return the slots with which a horizon begins: ``size`` of them, more if they begin together.

    There is one for each resource and start: of two lines the earlier one's.
    """
    skipped = _skipped_within(horizon, grid.zone)
    calendar = _Calendar([line for line in lines if _has_room(line, grid)], horizon)
    found: list[Slot] = []
    day = horizon.after.date()
    while day < horizon.until.date() and len(found) <= size:
        slots = {
            (slot.start, slot.key): slot
            for line in reversed(calendar.near(day))
            for slot in _slots_on(line, day, grid)
            if slot.start >= horizon.after and not _meets(slot, skipped)
        }
        found += sorted(slots.values())
        day += _DAY
    return _cut(found, horizon, size)


class _Calendar:
    """The lines of a roster by what they are about: most of ten thousand are of another day."""

    def __init__(self, lines: Sequence[RosterLine], horizon: Horizon) -> None:
        first, last = horizon.after.date() - _DAY, horizon.until.date()
        self._lines = lines
        self._positions: dict[date | int, list[int]] = {}
        for position, line in enumerate(lines):
            is_over = line.valid_to is not None and line.valid_to < first
            is_ahead = line.valid_from is not None and line.valid_from > last
            if is_over or is_ahead:
                continue
            for key in (line.day,) if line.day is not None else line.weekdays:
                self._positions.setdefault(key, []).append(position)

    def near(self, day: date) -> list[RosterLine]:
        """Return the lines that may begin on a day or the one before it, in order."""
        days = (day, day - _DAY) if day > date.min else (day,)
        keys = {key for each in days for key in (each, each.isoweekday() % 7)}
        positions = {position for key in keys for position in self._positions.get(key, ())}
        return [self._lines[position] for position in sorted(positions)]


def _cut(found: list[Slot], horizon: Horizon, size: int) -> Stretch:
    """Return the first slots, with all that begin at one time."""
    until = horizon.until
    if len(found) > size:
        behind = found[0].start if found[size].start == found[0].start else None
        starts = (slot.start for slot in found[size:] if slot.start != behind)
        until = next(starts, _days(found[-1].start, 1))
    return Stretch(
        after=horizon.after, until=until, slots=[slot for slot in found if slot.start < until]
    )


def _skipped_within(horizon: Horizon, zone: tzinfo) -> list[tuple[datetime, datetime]]:
    since, until = to_utc(horizon.after), to_utc(horizon.until)
    if since is None or until is None:
        return []
    return skipped_walls(since - _DAY, until + 2 * _DAY, zone)


def _slots_on(line: RosterLine, day: date, grid: Grid) -> Iterator[Slot]:
    """Give the slots of a line that begin on a local day; it may have begun on the day before."""
    if line.holds_on(day):
        yield from _within(line, _midnight_of(day, grid.zone), grid, (0, MINUTES_OF_A_DAY))
    if line.end_minute > MINUTES_OF_A_DAY and day > date.min and line.holds_on(day - _DAY):
        midnight = _midnight_of(day - _DAY, grid.zone)
        yield from _within(line, midnight, grid, (MINUTES_OF_A_DAY, line.end_minute))


def _has_room(line: RosterLine, grid: Grid) -> bool:
    return line.start_minute + grid.slot_minutes <= line.end_minute


def _within(
    line: RosterLine, midnight: datetime, grid: Grid, bounds: tuple[int, int]
) -> Iterator[Slot]:
    length = timedelta(minutes=grid.slot_minutes)
    last = line.end_minute - grid.slot_minutes
    for minute in range(line.start_minute, last + 1, grid.slot_minutes + grid.gap_minutes):
        if bounds[0] <= minute < bounds[1]:
            start = midnight + timedelta(minutes=minute)
            yield Slot(start, line.key, start + length, line.resource)


def _meets(slot: Slot, skipped: Iterable[tuple[datetime, datetime]]) -> bool:
    return any(slot.start < behind and first < slot.end for first, behind in skipped)


def _minute(wall: datetime) -> datetime:
    """Return the first whole minute from a wall on."""
    minute = wall.replace(second=0, microsecond=0, fold=0)
    return minute if minute >= wall else minute + _MINUTE


def _days(wall: datetime, days: int) -> datetime:
    """Return the midnight that so many days behind the wall's begins with."""
    return _midnight_of(wall.date(), wall.tzinfo) + days * _DAY


def _midnight_of(day: date, zone: tzinfo | None) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)
