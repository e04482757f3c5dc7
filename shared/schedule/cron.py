"""Strict five-field cron expressions: reading them, and finding matching minutes of the calendar.

Local wall time only. What daylight saving does to a matching minute is decided in ``windows.py``.
"""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import accumulate

_FIELD = re.compile(r"[^ \t\n\r\v\f]+")
_ITEM = re.compile(r"(?:(\*)|([0-9]+)(?:-([0-9]+))?)(?:/([0-9]+))?")
_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day-of-month", 1, 31),
    ("month", 1, 12),
    ("day-of-week", 0, 6),
)
_QUOTED_CHARACTERS = 60
# Every minute by its number takes 169; what is stored is read again in every round.
_MAX_FIELD = 10_000

# A year has one of 14 shapes: leap or not, times the weekday of 1 January (Sunday = 0). The
# Gregorian calendar repeats after 400 years, weekdays included.
_SHAPE_OF_YEAR = tuple(
    7 * calendar.isleap(year) + date(year, 1, 1).isoweekday() % 7 for year in range(2000, 2400)
)
_MONTH_LENGTHS = tuple(
    tuple(calendar.monthrange(year, month)[1] for month in range(1, 13)) for year in (2001, 2000)
)
# [leap][month]: days of the year before that month; the first entry is there to be skipped.
_DAYS_BEFORE = tuple((0, 0, *accumulate(lengths[:-1])) for lengths in _MONTH_LENGTHS)
# [leap][day of the year, from 1]: its month and day.
_MONTH_AND_DAY = tuple(
    (
        (0, 0),
        *(
            (month, day)
            for month, length in enumerate(lengths, start=1)
            for day in range(1, length + 1)
        ),
    )
    for lengths in _MONTH_LENGTHS
)
_EVERY_WEEK = sum(1 << 7 * week for week in range(54))
# Every shape comes again within so many years (a leap year's over a century such as 1900), so what
# depends on the shape alone either happens within them or never does.
SHAPES_RECUR_WITHIN_YEARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CronRule:
    """A compiled expression.

    ``minutes`` has bit n set for minute n of a matching day; ``days`` has for each of the 14 shapes
    of a year bit n set for its n-th day, counted from 1.
    """

    minutes: int
    days: tuple[int, ...]

    @property
    def never_matches(self) -> bool:
        """Tell whether no day of any year matches, such as 30 February."""
        return not any(self.days)

    def at_or_before(self, wall: datetime) -> datetime | None:
        """Return the latest matching minute up to ``wall`` (in its zone, fold 0), or None."""
        year, month, day = wall.year, wall.month, wall.day
        shape = _SHAPE_OF_YEAR[year % 400]
        day_of_year = _DAYS_BEFORE[shape >= 7][month] + day
        days = self.days[shape]
        if days >> day_of_year & 1:
            passed = self.minutes & (2 << wall.hour * 60 + wall.minute) - 1
            if passed:
                minute = passed.bit_length() - 1
                return datetime(year, month, day, minute // 60, minute % 60, 0, 0, wall.tzinfo)
        days &= (1 << day_of_year) - 1
        if not days:
            earliest = max(year - SHAPES_RECUR_WITHIN_YEARS, 1)
            year, shape, days = self._first_matching(range(year - 1, earliest - 1, -1))
            if not days:
                return None
        return _wall(wall, year, shape, days.bit_length() - 1, self.minutes.bit_length() - 1)

    def at_or_after(self, wall: datetime) -> datetime | None:
        """Return the first matching minute from ``wall``'s on (in its zone, fold 0), or None."""
        year, month, day = wall.year, wall.month, wall.day
        shape = _SHAPE_OF_YEAR[year % 400]
        day_of_year = _DAYS_BEFORE[shape >= 7][month] + day
        days = self.days[shape] >> day_of_year
        if days & 1:
            minute = wall.hour * 60 + wall.minute
            ahead = self.minutes >> minute
            if ahead:
                minute += _lowest_bit(ahead)
                return datetime(year, month, day, minute // 60, minute % 60, 0, 0, wall.tzinfo)
        days = days >> 1 << day_of_year + 1
        if not days:
            latest = min(year + SHAPES_RECUR_WITHIN_YEARS, 9999)
            year, shape, days = self._first_matching(range(year + 1, latest + 1))
            if not days:
                return None
        return _wall(wall, year, shape, _lowest_bit(days), _lowest_bit(self.minutes))

    def _first_matching(self, years: range) -> tuple[int, int, int]:
        """Return the first of the years with a matching day, its shape and days; 0s if none has."""
        for year in years:
            shape = _SHAPE_OF_YEAR[year % 400]
            if self.days[shape]:
                return year, shape, self.days[shape]
        return 0, 0, 0


def collapse_blanks(expression: str) -> str:
    """Return the expression as it is stored: its fields, one space between them."""
    return " ".join(_FIELD.findall(expression))


def quoted(text: str) -> str:
    """Return a text as messages show it, long ones cut."""
    shown = text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}…"
    return f"'{shown}'"


def read_expression(expression: str) -> CronRule:
    """Return the compiled expression; ValueError's text names the field and what is wrong."""
    fields = _FIELD.findall(expression)
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"exactly five fields are needed (minute hour day-of-month month day-of-week), "
            f"not {len(fields)}: {quoted(expression)}"
        )
    minutes, hours, days, months, weekdays = (
        _read_field(text, *field) for text, field in zip(fields, _FIELDS, strict=True)
    )
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    return CronRule(
        minutes=sum(minutes << 60 * hour for hour in range(24) if hours >> hour & 1),
        days=tuple(_days_of_year(days=days, months=months, weekdays=weekdays, either=either)),
    )


def _read_field(text: str, name: str, lowest: int, highest: int) -> int:
    """Return the bits of the values that the field takes."""
    if len(text) > _MAX_FIELD:
        raise ValueError(f"{name} {quoted(text)} has more than {_MAX_FIELD} characters")
    bits = 0
    for item in text.split(","):
        if not item:
            raise ValueError(f"{name} {quoted(text)} has an empty list item")
        bits |= _read_item(item, name, lowest, highest)
    return bits


def _read_item(item: str, name: str, lowest: int, highest: int) -> int:
    found = _ITEM.fullmatch(item)
    if found is None:
        raise ValueError(f"{name} {quoted(item)} is not a number, '*', a range or a step of these")
    star, first, last, step = found.groups()
    if step is not None and not star and last is None:
        raise ValueError(f"{name} {quoted(item)} puts a step on a single number")
    start = lowest if star else _number(first)
    stop = highest if star else start if last is None else _number(last)
    if start < lowest or max(start, stop) > highest:
        raise ValueError(f"{name} {quoted(item)} is outside {lowest}-{highest}")
    if stop < start:
        raise ValueError(f"{name} {quoted(item)} is a reversed range")
    stride = 1 if step is None else _number(step)
    if stride == 0:
        raise ValueError(f"{name} {quoted(item)} has step 0")
    return sum(1 << value for value in range(start, stop + 1, stride))


def _number(digits: str) -> int:
    """Return the number, or 1000 for any larger one: int() refuses text of thousands of digits."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= 3 else 1000


def _days_of_year(*, days: int, months: int, weekdays: int, either: bool) -> Iterator[int]:
    """Give for each shape of a year the bits of its matching days; Vixie's rule for day fields."""
    weeks = weekdays * _EVERY_WEEK << 1
    for leap, lengths in enumerate(_MONTH_LENGTHS):
        in_months = by_day = 0
        for month, length in enumerate(lengths, start=1):
            if months >> month & 1:
                whole_month = (2 << length) - 2
                in_months |= whole_month << _DAYS_BEFORE[leap][month]
                by_day |= (days & whole_month) << _DAYS_BEFORE[leap][month]
        for first_weekday in range(7):
            by_weekday = weeks >> first_weekday & in_months
            yield by_day | by_weekday if either else by_day & by_weekday


def _wall(like: datetime, year: int, shape: int, day_of_year: int, minute: int) -> datetime:
    month, day = _MONTH_AND_DAY[shape >= 7][day_of_year]
    return datetime(year, month, day, minute // 60, minute % 60, 0, 0, like.tzinfo)


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
