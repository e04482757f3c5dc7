"""Which records of a page make a date trigger due: the one decision of tick, due pass and preview.

Rows are tuples and values are read once per distinct cell, since an audit walks millions of rows
of which nearly all lie ahead.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from shared.domain.columns import Column
from shared.domain.conditions import matches
from shared.domain.strict_json import Json
from shared.domain.triggers import Trigger
from shared.schedule import fire_at, parse_cell
from shared.schedule.cells import is_missing
from shared.schedule.model import DateColumnReached

_NEVER = datetime.max.replace(tzinfo=UTC)


class Candidate(Protocol):
    """What is asked of a live record."""

    @property
    def record_id(self) -> int:
        """Its id."""
        ...

    @property
    def version(self) -> int:
        """Its version, which travels on with the decision."""
        ...

    @property
    def cell(self) -> str | None:
        """The cell of the schedule's column, as text."""
        ...

    @property
    def data(self) -> Mapping[str, Json]:
        """At least the cells that the trigger's ``when`` names, by column id."""
        ...

    @property
    def look_at(self) -> datetime | None:
        """The instant of its entry in the due index, None without one."""
        ...


class Due(NamedTuple):
    """A record that is due, under the identity that its run consumes."""

    record_id: int
    version: int
    identity: str
    fire_at: datetime


class Ahead(NamedTuple):
    """A record whose entry in the due index is missing or tells another instant."""

    record_id: int
    version: int
    fire_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DatePage:
    """A page of records in its six classes, which exclude each other (spec 1 §8).

    ``of_backlog`` are overdue values that do not fire now by the choice of a save: those to be
    consumed are counted as fired already, those that wait in a drip as ahead.
    """

    missing_schedule_value: int
    invalid_schedule_value: int
    already_fired: int
    scheduled_for_future: int
    when_filter_mismatch: int
    due: list[Due]
    ahead: list[Ahead]
    of_backlog: list[Due] = field(default_factory=list)

    @property
    def due_now(self) -> int:
        """How many records are due."""
        return len(self.due)

    @property
    def records_scanned(self) -> int:
        """How many records the page has."""
        return (
            self.missing_schedule_value
            + self.invalid_schedule_value
            + self.already_fired
            + self.scheduled_for_future
            + self.when_filter_mismatch
            + self.due_now
        )

    def __add__(self, other: "DatePage") -> "DatePage":
        """Return both pages as one."""
        return DatePage(
            missing_schedule_value=self.missing_schedule_value + other.missing_schedule_value,
            invalid_schedule_value=self.invalid_schedule_value + other.invalid_schedule_value,
            already_fired=self.already_fired + other.already_fired,
            scheduled_for_future=self.scheduled_for_future + other.scheduled_for_future,
            when_filter_mismatch=self.when_filter_mismatch + other.when_filter_mismatch,
            due=self.due + other.due,
            ahead=self.ahead + other.ahead,
            of_backlog=self.of_backlog + other.of_backlog,
        )


NO_RECORDS = DatePage(
    missing_schedule_value=0,
    invalid_schedule_value=0,
    already_fired=0,
    scheduled_for_future=0,
    when_filter_mismatch=0,
    due=[],
    ahead=[],
)


def judge_page(
    trigger: Trigger,
    rows: Iterable[Candidate],
    *,
    consumed: Set[tuple[int, str]],
    now: datetime,
) -> DatePage:
    """Return the records of a page by class; due ones and those ahead in the order of the rows.

    ``consumed`` has the (record id, identity) pairs that the ledger has of these records. Decided
    in this order: missing, invalid, already fired, future, ``when`` mismatch, due. Records that
    saturate at the end of time are ahead for ever and want no entry in the due index.
    """
    values = values_of(trigger)
    faulty = {_MISSING: 0, _INVALID: 0}
    fired = future = mismatched = 0
    due: list[Due] = []
    ahead: list[Ahead] = []
    for row in rows:
        identity, instant = values[row.cell]
        if instant is None:
            faulty[identity] += 1
        elif (row.record_id, identity) in consumed:
            fired += 1
        elif instant > now:
            future += 1
            if instant != row.look_at and instant != _NEVER:
                ahead.append(Ahead(row.record_id, row.version, instant))
        elif not trigger.when or matches(trigger.when, row.data):
            due.append(Due(row.record_id, row.version, identity, instant))
        else:
            mismatched += 1
    return DatePage(
        missing_schedule_value=faulty[_MISSING],
        invalid_schedule_value=faulty[_INVALID],
        already_fired=fired,
        scheduled_for_future=future,
        when_filter_mismatch=mismatched,
        due=due,
        ahead=ahead,
    )


def look_at(trigger: Trigger, cell: object) -> datetime | None:
    """Return when a record with this cell wants a look: its instant for the due index.

    None: never, since the cell is missing or invalid, or saturates at the end of time.
    """
    _, instant = values_of(trigger)[cell if isinstance(cell, str) else None]
    return None if instant == _NEVER else instant


def ahead_from(trigger: Trigger, *, now: datetime) -> str | None:
    """Return a text that no cell reaches, by code point, and is due; None if there is none.

    It is the day after the one that the offset makes of ``now``: every readable cell behind it lies
    ahead. So an audit need not read them; of the cells before it the evaluator judges.
    """
    schedule = trigger.schedule
    if not isinstance(schedule, DateColumnReached):
        raise TypeError(f"{trigger.kind} is not a date trigger")
    try:
        day = now - timedelta(minutes=schedule.offset_minutes) + timedelta(days=1)
    except OverflowError:
        return None
    return day.date().isoformat()


def identity_length(trigger: Trigger) -> int:
    """Return how many characters an identity of the trigger has.

    A cell that has them, and whose first so many are one that the record has consumed, T read as a
    blank, is not due whatever follows: if it can be read at all, that is its identity.
    """
    column = trigger.date_column
    if column is None:
        raise TypeError(f"{trigger.kind} is not a date trigger")
    return len("YYYY-MM-DD") if column.type == "date" else len("YYYY-MM-DD HH:MM")


_MISSING = "missing"
_INVALID = "invalid"


class DateValues(dict[str | None, tuple[str, datetime | None]]):
    """By cell: its identity and the instant it fires; without an instant, the class instead."""

    def __init__(self, column: Column, schedule: DateColumnReached) -> None:
        super().__init__()
        self._column_type = column.type
        self._offset_minutes = schedule.offset_minutes

    def __missing__(self, cell: str | None) -> tuple[str, datetime | None]:
        read = parse_cell(cell, self._column_type)
        value: tuple[str, datetime | None]
        if read is None:
            value = _MISSING if is_missing(cell) else _INVALID, None
        else:
            value = read.identity, fire_at(read.instant, self._offset_minutes)
        self[cell] = value
        return value


def values_of(trigger: Trigger) -> DateValues:
    """Return what the cells mean to a trigger on dates."""
    column, schedule = trigger.date_column, trigger.schedule
    if column is None or not isinstance(schedule, DateColumnReached):
        raise TypeError(f"{trigger.kind} is not a date trigger")
    return DateValues(column, schedule)
