"""Triggers and their durable state, as values; the one reader of authored and stored triggers."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from shared.domain.action_lists import action_list_faults
from shared.domain.columns import Column
from shared.domain.conditions import Predicate, read_when
from shared.domain.faults import child, cut, in_document_order, under, unknown_key, unknown_keys
from shared.domain.on_existing import Backlog
from shared.domain.runs import RunKind
from shared.domain.strict_json import Json
from shared.errors import Fault
from shared.schedule import normal_form, parse_schedule
from shared.schedule.model import DateColumnReached, Schedule
from shared.schedule.model import ScheduleKind as ScheduleKind
from shared.schedule.parse import schedule_faults

On = Literal["schedule", "record_created", "record_updated", "record_deleted"]
EVENTS: tuple[On, ...] = get_args(On)

MAX_NAME = 200

ERROR_CODES = (
    "trigger_id_missing",
    "trigger_id_duplicate",
    "schedule_object_missing",
    "stored_schedule_invalid",
    "unsupported_schedule_type",
    "schedule_column_missing",
    "schedule_column_wrong_type",
    "offset_minutes_invalid",
    "interval_seconds_invalid",
    "daily_time_invalid",
    "cron_expression_invalid",
    "cron_when_not_allowed",
    "when_column_missing",
    "when_predicate_invalid",
    "timezone_invalid",
    "schedule_state_missing",
)
"""What preview may say of a broken stored trigger (spec 1 §8)."""

_ID = re.compile("trg_[0-9a-f]{12}")
TRIGGER_KEYS = ("id", "name", "enabled", "on", "schedule", "when", "actions")
_KINDS: tuple[ScheduleKind, ...] = get_args(ScheduleKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A valid trigger.

    ``raw`` is its stored form, ``actions`` as authored in it. ``id`` is None only until the save
    gives one, ``schedule`` for triggers on events. ``kind`` is that of its runs: the type of its
    schedule, or the event. ``date_column`` is the column of a date schedule. ``when`` is empty
    where it is never read: on the clock schedules.
    """

    id: str | None
    name: str
    enabled: bool
    on: On
    kind: RunKind
    schedule: Schedule | None
    date_column: Column | None
    when: tuple[Predicate, ...]
    actions: tuple[Mapping[str, Any], ...]
    raw: Mapping[str, Any]

    def identified_as(self, trigger_id: str) -> "Trigger":
        """Return the trigger under an id."""
        return replace(self, id=trigger_id, raw={**self.raw, "id": trigger_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrigger:
    """What reading a trigger gave: it, or its faults in document order; ``raw`` is what was read.

    The pointers of the faults are relative to the trigger.
    """

    raw: object
    trigger: Trigger | None
    faults: tuple[Fault, ...]

    @property
    def trigger_id(self) -> str | None:
        """The id, also of an invalid trigger; None when it has none."""
        return _text_at(self.raw, "id")

    @property
    def schedule_type(self) -> str | None:
        """The type that its schedule names, also an unknown one; None when there is none."""
        return _text_at(self.raw.get("schedule"), "type") if isinstance(self.raw, dict) else None

    @property
    def is_schedule(self) -> bool:
        """Whether it stands for a schedule: all but the triggers on events."""
        return _text_at(self.raw, "on") not in EVENTS[1:]

    @property
    def error_codes(self) -> list[str]:
        """The stable codes of its faults, each once, as preview tells them."""
        codes = (
            fault.code if fault.code in ERROR_CODES else "stored_schedule_invalid"
            for fault in self.faults
        )
        return list(dict.fromkeys(codes))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerState:
    """The durable state of a schedule trigger; ``cursor`` is the last row its walk looked at.

    ``schedule`` is the normal form the anchor belongs to. ``retired_at`` is None while the trigger
    stands in its table. ``backlog`` is what the choice of a save has still to be done with, if any.
    """

    ref: int
    tenant_id: UUID
    table_id: UUID
    trigger_id: str
    kind: ScheduleKind
    schedule: Mapping[str, Any]
    anchor_at: datetime
    last_window_at: datetime | None
    next_due_at: datetime | None
    cursor: tuple[datetime, int] | None
    caught_up: bool
    retired_at: datetime | None
    backlog: Backlog | None = None


def read_triggers(
    raw: object, columns: tuple[Column, ...], *, stored: bool = False
) -> list[ReadTrigger]:
    """Return what reading each trigger of a list gave; an id that stands twice faults both.

    Never raises. A list that is none is read as one broken trigger.
    """
    if not isinstance(raw, list):
        return [_broken(raw, _fault("", "triggers must be a list"))]
    read = [read_trigger(entry, columns, stored=stored) for entry in raw]
    counts = Counter(one.trigger_id for one in read if one.trigger_id)
    return [_with_duplicate(one) if counts[one.trigger_id or ""] > 1 else one for one in read]


def _with_duplicate(read: ReadTrigger) -> ReadTrigger:
    message = f"trigger id '{cut(read.trigger_id or '')}' stands twice in the list"
    duplicate = Fault(code="trigger_id_duplicate", pointer="/id", message=message)
    faults = in_document_order(read.raw, [*read.faults, duplicate])
    return replace(read, trigger=None, faults=tuple(faults))


def read_trigger(raw: object, columns: tuple[Column, ...], *, stored: bool = False) -> ReadTrigger:
    """Return the trigger that an author wrote or a table stores, or all its faults.

    Never raises. ``stored``: an id must be there, and ``when`` of interval and daily is passed
    over, since the scheduler never reads it (spec 1 §6). Which actions there are, and what they
    take, is the registry's to say.
    """
    if not isinstance(raw, dict):
        missing = [_missing_id()] if stored else []
        return _broken(raw, *missing, _fault("", "a trigger must be an object"))
    when, when_faults = _read_when(raw, columns, stored=stored)
    faults = [
        *_unknown_keys(raw),
        *_id_faults(raw, stored=stored),
        *_head_faults(raw),
        *_schedule_faults(raw, columns),
        *when_faults,
        *action_list_faults(raw.get("actions"), "/actions", name="actions", code="trigger_invalid"),
    ]
    if faults:
        return _broken(raw, *in_document_order(raw, faults))
    form = stored_form(raw)
    schedule = parse_schedule(form["schedule"]) if form["on"] == "schedule" else None
    trigger = Trigger(
        id=raw.get("id"),
        name=form["name"],
        enabled=form["enabled"],
        on=form["on"],
        kind=form["on"] if schedule is None else schedule.kind,
        schedule=schedule,
        date_column=_date_column(schedule, columns),
        when=when,
        actions=tuple(form["actions"]),
        raw=form,
    )
    return ReadTrigger(raw=raw, trigger=trigger, faults=())


def kind_change_faults(read: ReadTrigger, kinds: Mapping[str, ScheduleKind]) -> list[Fault]:
    """Refuse another kind of schedule under an id that had one, be it retired since (spec 1 §4).

    ``kinds`` are those of all states that the table ever had, by trigger id.
    """
    kind = read.schedule_type
    known = kinds.get(read.trigger_id or "")
    if not read.is_schedule or kind not in _KINDS or known in (None, kind):
        return []
    code = "schedule_kind_change_requires_new_trigger_id"
    message = (
        f"{code}: trigger '{read.trigger_id}' changes its schedule type in place. retire the old "
        "trigger id and create the new schedule kind under a new trigger id"
    )
    return [Fault(code=code, pointer="/schedule/type", message=message)]


def _date_column(schedule: Schedule | None, columns: Iterable[Column]) -> Column | None:
    if not isinstance(schedule, DateColumnReached):
        return None
    return next(column for column in columns if column.name == schedule.column)


def stored_form(raw: Mapping[str, Any]) -> dict[str, Json]:
    """Return a valid trigger as it is stored and shown; what is in this form comes back unchanged.

    Defaults of the trigger are written out (``name`` empty, ``enabled``, ``when``), those of its
    schedule are dropped (spec 1 §3), an absent id stays absent.
    """
    form: dict[str, Json] = {"id": raw["id"]} if "id" in raw else {}
    form |= {"name": raw.get("name", ""), "enabled": raw.get("enabled", True), "on": raw["on"]}
    if "schedule" in raw:
        form["schedule"] = normal_form(raw["schedule"])
    return form | {"when": raw.get("when", []), "actions": raw["actions"]}


def _unknown_keys(raw: Mapping[str, Any]) -> Iterator[Fault]:
    for key in unknown_keys(raw, TRIGGER_KEYS):
        yield _fault(child("", key), unknown_key(key, "a trigger", TRIGGER_KEYS))


def _id_faults(raw: Mapping[str, Any], *, stored: bool) -> Iterator[Fault]:
    trigger_id = raw.get("id")
    if stored and not isinstance(trigger_id, str):
        yield _missing_id()
    elif "id" in raw and not (isinstance(trigger_id, str) and _ID.fullmatch(trigger_id)):
        yield _fault("/id", "a trigger id must be 'trg_' and 12 hex digits in lower case")


def _head_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    name = raw.get("name", "")
    if not isinstance(name, str) or len(name) > MAX_NAME:
        yield _fault("/name", f"name must be a text of at most {MAX_NAME} characters")
    if not isinstance(raw.get("enabled", True), bool):
        yield _fault("/enabled", "enabled must be true or false")
    on = raw.get("on")
    if on not in EVENTS:
        yield _fault("/on", f"on must be one of: {', '.join(EVENTS)}")
    elif on != "schedule" and "schedule" in raw:
        yield _fault("/schedule", "only a trigger on schedule has a schedule")


def _schedule_faults(raw: Mapping[str, Any], columns: tuple[Column, ...]) -> Iterator[Fault]:
    if raw.get("on") in EVENTS[1:]:
        return
    schedule = raw.get("schedule")
    yield from under("/schedule", schedule_faults(schedule))
    name = schedule.get("column") if _kind(raw) == "date_column_reached" and schedule else None
    if not isinstance(name, str) or not name:
        return
    types = [column.type for column in columns if column.name == name]
    shown = f"date_column_reached column '{cut(name)}'"
    if not types:
        message = f"{shown} is not a column of the table"
        yield Fault(code="schedule_column_missing", pointer="/schedule/column", message=message)
    elif types[0] not in ("date", "datetime"):
        message = f"{shown} must be a date or datetime column, not {types[0]}"
        yield Fault(code="schedule_column_wrong_type", pointer="/schedule/column", message=message)


def _read_when(
    raw: Mapping[str, Any], columns: tuple[Column, ...], *, stored: bool
) -> tuple[tuple[Predicate, ...], list[Fault]]:
    when, kind = raw.get("when", []), _kind(raw)
    if kind == "cron" and isinstance(when, list) and when:
        message = "cron_when_not_allowed: cron schedules are recordless and take no when predicates"
        return (), [Fault(code="cron_when_not_allowed", pointer="/when", message=message)]
    recordless = kind in ("interval", "daily")
    if recordless and stored:
        return (), []
    predicates, faults = read_when(when, columns, on=_text_at(raw, "on"))
    return () if recordless else predicates, faults


def _kind(raw: Mapping[str, Any]) -> str | None:
    """Return the type that the schedule of a trigger on schedule names, if it is a text."""
    return _text_at(raw.get("schedule"), "type") if raw.get("on") == "schedule" else None


def _text_at(value: object, key: str) -> str | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _missing_id() -> Fault:
    message = "the stored trigger has no id"
    return Fault(code="trigger_id_missing", pointer="/id", message=message)


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="trigger_invalid", pointer=pointer, message=message)


def _broken(raw: object, *faults: Fault) -> ReadTrigger:
    return ReadTrigger(raw=raw, trigger=None, faults=faults)
