"""Rules on events: what a tenant's event leads to, and for whom (spec 3 §1).

Their conditions are predicates on what the event tells (``event.<key>``) and on its contact
(``line_user.<attribute>``). Nothing says of which type these are: a condition compares them as what
its own value is, and a cell of any other type cannot be compared.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.columns import Column, ColumnType, is_number
from shared.domain.conditions import MAX_PREDICATES, Predicate, matches, read_predicate
from shared.domain.faults import MAX_TOLD, child
from shared.domain.line_users import LineUser, cells
from shared.domain.strict_json import Json
from shared.errors import Fault

MAX_EVENT_NAME = 200
MAX_RULE_NAME = 200
MAX_KEY = 200
CONDITIONS_UNREADABLE = "its conditions cannot be read any more"
MAX_CONDITIONS_TEXT = 32_768
"""Characters of a list of conditions, written as JSON: fifty lists are read for one event."""
MAX_ACTIONS_TEXT = 131_072
"""Characters of a rule's actions, written as JSON: one event copies those of fifty rules."""

_EVENT = "event."
_CONTACT = "line_user."
_SUBJECTS = (_EVENT, _CONTACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRule:
    """A rule; ``conditions`` and ``actions`` are as authored, ``event`` is the name it answers."""

    id: int
    tenant_id: UUID
    name: str
    event: str
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    enabled: bool
    revision: int
    created_at: datetime
    updated_at: datetime


def read_conditions(
    raw: object, pointer: str = "/conditions"
) -> tuple[tuple[Predicate, ...], list[Fault]]:
    """Return the predicates of a list of ``{column, op, value?}``, or what is wrong with it.

    The predicates are complete only without faults, whose codes are those of ``when``.
    """
    if not isinstance(raw, list) or len(raw) > MAX_PREDICATES:
        message = f"conditions must be a list of at most {MAX_PREDICATES} predicates"
        return (), [Fault(code="when_predicate_invalid", pointer=pointer, message=message)]
    if len(json.dumps(raw, ensure_ascii=False)) > MAX_CONDITIONS_TEXT:
        message = f"conditions have at most {MAX_CONDITIONS_TEXT} characters together"
        return (), [Fault(code="when_predicate_invalid", pointer=pointer, message=message)]
    predicates: list[Predicate] = []
    faults: list[Fault] = []
    for index, entry in enumerate(raw):
        predicate, found = _read_condition(entry, child(pointer, index))
        if predicate is not None:
            predicates.append(predicate)
        faults += found
        if len(faults) >= MAX_TOLD:
            break
    return tuple(predicates), faults


def _read_condition(entry: object, pointer: str) -> tuple[Predicate | None, list[Fault]]:
    column = _column_of(entry)
    named = {} if column is None else {column.name: column}
    predicate, faults = read_predicate(entry, named, on=None, pointer=pointer)
    return predicate, [
        _unknown_subject(fault.pointer) if fault.code == "when_column_missing" else fault
        for fault in faults
    ]


def _unknown_subject(pointer: str) -> Fault:
    message = "a condition's column must be event.<key> or line_user.<attribute>"
    return Fault(code="when_column_missing", pointer=pointer, message=message)


def _column_of(entry: object) -> Column | None:
    """Return what a condition is about, as a column of the type of its value; None: nothing."""
    name = entry.get("column") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str):
        return None
    key = next((name.removeprefix(each) for each in _SUBJECTS if name.startswith(each)), "")
    if not 1 <= len(key) <= MAX_KEY:
        return None
    return Column(id=name, name=name, type=_type_of(entry.get("op"), entry.get("value")))


def _type_of(op: object, value: object) -> ColumnType:
    if op in ("contains", "not_contains"):
        return "json"
    values = value if op in ("in", "not_in") and isinstance(value, list) else [value]
    types = {_type_of_one(each) for each in values}
    return types.pop() if len(types) == 1 else "json"


def _type_of_one(value: object) -> ColumnType:
    match value:
        case bool():
            return "checkbox"
        case str():
            return "text"
        case _:
            return "number" if is_number(value) else "json"


def conditions_hold(
    when: list[dict[str, Any]], *, event: Mapping[str, Json], line_user: LineUser | None
) -> bool:
    """Tell whether stored conditions match what the event told and its contact, as it is now.

    Raises ValueError for some that cannot be read, as those of a newer release may be: without
    their predicates everything would match.
    """
    predicates, faults = read_conditions(when)
    if faults:
        raise ValueError(CONDITIONS_UNREADABLE)
    return holds(predicates, event=event, line_user=line_user)


def holds(
    predicates: Collection[Predicate], *, event: Mapping[str, Json], line_user: LineUser | None
) -> bool:
    """Tell whether what the event told and its contact, as it is now, match all predicates.

    Without a contact all of its attributes are missing.
    """
    if not predicates:
        return True
    contact = {} if line_user is None else cells(line_user)
    data = {_EVENT + key: value for key, value in event.items()}
    return matches(predicates, data | {_CONTACT + key: value for key, value in contact.items()})
