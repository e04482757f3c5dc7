"""Rosters and slots as tables hold them: rows read as lines, slots written as cells.

A row that cannot be read is no line: it is counted, and never an exception.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from shared.domain.columns import Column, cell_fault
from shared.domain.records import Record
from shared.domain.strict_json import Json
from shared.schedule.cells import ASCII_BLANKS, is_missing, parse_cell
from shared.schedule.slots import MINUTES_OF_A_DAY, Resource, RosterLine, Slot

MAX_INVALID = 10
"""Rows that cannot be read and are told one by one."""

MAX_RESOURCE = 1000
"""Characters of a resource: each of its slots has them."""

OPEN = "open"
"""The status of a slot that nobody has taken."""

_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::[0-9]{2})?", re.ASCII)
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY_NUMBERS = {
    name: number for number, day in enumerate(_WEEKDAYS) for name in (day, day[:3], str(number))
}


class NoLine(ValueError):
    """A row of a roster cannot be read as a line; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterColumns:
    """The columns of a roster: it has either ``weekday`` or ``date``."""

    resource: Column
    weekday: Column | None
    date: Column | None
    start: Column
    end: Column
    valid_from: Column | None
    valid_to: Column | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotColumns:
    """The columns of a table of slots."""

    resource: Column
    start: Column
    end: Column
    status: Column

    def cells(self, slot: Slot) -> dict[str, Json]:
        """Return the cells of an open slot by column id."""
        return {
            self.resource.id: slot.resource,
            self.start.id: wall_text(slot.start),
            self.end.id: wall_text(slot.end),
            self.status.id: OPEN,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The lines of a roster, oldest first, and the rows that are none: record id and reason."""

    lines: list[RosterLine]
    invalid: list[tuple[int, str]]

    def told(self) -> dict[str, Json]:
        """Return what a receipt tells of the rows that are none: how many, and the first."""
        first = [{"record_id": id, "detail": detail} for id, detail in self.invalid[:MAX_INVALID]]
        told: dict[str, Json] = {"invalid": len(self.invalid)}
        return {**told, "invalid_lines": first} if first else told


def read_roster(records: Iterable[Record], columns: RosterColumns, slots: SlotColumns) -> Roster:
    """Return the lines that rows are."""
    roster = Roster(lines=[], invalid=[])
    for record in records:
        try:
            roster.lines.append(read_line(record.data, columns, slots))
        except NoLine as reason:
            roster.invalid.append((record.id, str(reason)))
    return roster


def wall_text(wall: datetime) -> str:
    """Return a wall time as datetime cells have it: ``YYYY-MM-DD HH:MM``."""
    return wall.isoformat(sep=" ", timespec="minutes")[:16]


def slot_key(slot: Slot) -> str:
    """Return what a slot is known by in its table: its start, then its resource."""
    digest = hashlib.sha256(slot.key.encode()).hexdigest()
    return f"{start_key(slot.start)}:{digest[:32]}"


def start_key(wall: datetime) -> str:
    """Return what the keys of all slots from a wall time on are not less than."""
    return f"slot:{wall_text(wall)}"


def start_in(key: str, zone: tzinfo | None) -> datetime:
    """Return the wall time at which the slot with a key starts."""
    start = key.removeprefix("slot:")[: len("YYYY-MM-DD HH:MM")]
    return datetime.fromisoformat(start).replace(tzinfo=zone)


def read_line(data: Mapping[str, Any], columns: RosterColumns, slots: SlotColumns) -> RosterLine:
    """Return the line that a row has, cells by column id. Raises NoLine."""

    def cell(column: Column | None) -> object:
        return None if column is None else data.get(column.id)

    resource = _resource(cell(columns.resource), slots.resource)
    start = _minutes(cell(columns.start), "start")
    end = _minutes(cell(columns.end), "end")
    if start in (MINUTES_OF_A_DAY, end):
        raise NoLine("it ends where it starts")
    weekdays, day = frozenset[int](), None
    if columns.date is not None:
        day = _day(cell(columns.date), "date")
    else:
        weekdays = _weekdays(cell(columns.weekday))
    return RosterLine(
        resource=resource,
        key=_key(resource),
        weekdays=weekdays,
        day=day,
        start_minute=start,
        end_minute=end if end > start else end + MINUTES_OF_A_DAY,
        valid_from=_bound(cell(columns.valid_from), "valid_from"),
        valid_to=_bound(cell(columns.valid_to), "valid_to"),
    )


def _resource(cell: object, column: Column) -> Resource:
    if is_missing(cell) or not isinstance(cell, str | int | float | bool):
        raise NoLine("it has no resource")
    if isinstance(cell, str) and len(cell) > MAX_RESOURCE:
        raise NoLine(f"its resource has more than {MAX_RESOURCE} characters")
    if (fault := cell_fault(column, cell)) is not None:
        raise NoLine(f"its resource does not fit the slots: {fault}")
    return cell


def _key(resource: Resource) -> str:
    """Return what is equal of equal resources: 1 is 1.0, and neither true nor the text."""
    whole = isinstance(resource, float) and resource.is_integer()
    return json.dumps(int(resource) if whole else resource)


def _minutes(cell: object, name: str) -> int:
    """Return the minutes since midnight: ``H:MM`` or ``HH:MM``, seconds do not count; 24:00 too."""
    found = _TIME.fullmatch(cell.strip(ASCII_BLANKS)) if isinstance(cell, str) else None
    if found is None:
        raise NoLine(f"its {name} is no time of day")
    hours, minutes = int(found[1]), int(found[2])
    if minutes > 59 or hours * 60 + minutes > MINUTES_OF_A_DAY:
        raise NoLine(f"its {name} is no time of day")
    return hours * 60 + minutes


def _weekdays(cell: object) -> frozenset[int]:
    items = cell if isinstance(cell, list) else [cell]
    numbers = [_DAY_NUMBERS.get(_weekday_text(item)) for item in items]
    found = frozenset(number for number in numbers if number is not None)
    if None in numbers or not found:
        raise NoLine("its weekday is none")
    return found


def _weekday_text(item: object) -> str:
    match item:
        case str():
            return item.strip(ASCII_BLANKS).lower()
        case bool():
            return ""
        case int():
            return str(item) if 0 <= item <= 6 else ""
        case float() if item.is_integer():
            return _weekday_text(int(item))
        case _:
            return ""


def _bound(cell: object, name: str) -> date | None:
    return None if is_missing(cell) else _day(cell, name)


def _day(cell: object, name: str) -> date:
    read = parse_cell(cell, "date")
    if read is None:
        raise NoLine(f"its {name} is no date")
    return read.instant.date()
