"""Date cells: what an author wrote in a date or datetime column, read as naive UTC.

Strict on purpose. The standard and dateutil's parsers take week dates, month names, compact forms
and blanks of other scripts; here a cell either has one of the forms of the contract or is invalid.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

ASCII_BLANKS = " \t\n\r\v\f"

_LATEST = datetime.max.replace(tzinfo=UTC)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_HOUR = "(?:[01][0-9]|2[0-3])"
_CELL = re.compile(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}"
    f"(?P<time>[T ]{_HOUR}:[0-5][0-9](?::[0-5][0-9](?:[.][0-9]+)?)?)?"
    f"(?:Z|[+-]{_HOUR}(?::?[0-5][0-9])?)?"
)


class DateCell(NamedTuple):
    """A readable date cell; a tuple, since a page has up to 10,000 of them.

    ``instant`` is aware UTC, whole minutes. ``identity`` is the normalised value that fires at most
    once: ``YYYY-MM-DD`` in a date column, ``YYYY-MM-DD HH:MM`` in a datetime column.
    """

    instant: datetime
    identity: str


def is_missing(value: object) -> bool:
    """Tell whether a cell holds no value: null, empty or blank text."""
    return value is None or (isinstance(value, str) and not value.strip(ASCII_BLANKS))


def parse_cell(value: object, column_type: str) -> DateCell | None:
    """Return what a cell of a ``date`` or ``datetime`` column says, or None if missing or invalid.

    An offset in the cell is discarded, not converted; seconds do not count; in a date column the
    time does not either. Years are 0001 to 9999.
    """
    if not isinstance(value, str):
        return None
    text = value.strip(ASCII_BLANKS)
    found = _CELL.fullmatch(text)
    if found is None:
        return None
    day = text[:10]
    minute = f"{day} {text[11:16]}" if found["time"] and column_type != "date" else f"{day} 00:00"
    try:
        instant = datetime.fromisoformat(f"{minute}+00:00")
    except ValueError:
        return None
    return DateCell(instant, day if column_type == "date" else minute)


def fire_at(instant: datetime, offset_minutes: int) -> datetime:
    """Return the instant shifted by the offset; past either end of time, that end itself.

    The latest datetime is never due and the earliest always is: nothing in a cell may raise.
    """
    if offset_minutes == 0:
        return instant
    try:
        return instant + timedelta(minutes=offset_minutes)
    except OverflowError:
        return _LATEST if offset_minutes > 0 else _EARLIEST
