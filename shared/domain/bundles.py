"""Bundles: JSON Lines that say what a tenant is to have, one resource a line (docs/bundles.md).

Here a document is read and written; what it would change is told by ``plan``.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared.domain.commands import Command
from shared.domain.differences import as_stored, as_written
from shared.domain.event_rules import MAX_EVENT_NAME, MAX_RULE_NAME, TriggerRule
from shared.domain.faults import (
    MAX_TOLD,
    child,
    cut,
    in_document_order,
    under,
    unknown_key,
    unknown_keys,
)
from shared.domain.records import Approval, CustomTable
from shared.domain.strict_json import Json, loads
from shared.domain.triggers import TRIGGER_KEYS
from shared.domain.workflows import MAX_WORKFLOW_NAME, Workflow
from shared.errors import Fault, InvalidInput
from shared.schedule import normal_form

Kind = Literal["table", "trigger", "trigger_rule", "workflow", "command"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_A_CHANNEL: tuple[Kind, ...] = ("table", "trigger")
"""What the bundle of a channel may hold: rules, workflows and commands are the tenant's."""

MAX_BYTES = 8 * 1024 * 1024
MAX_LINES = 20_000
MAX_NAME = 200
MAX_URL = 2048

_BOM = b"\xef\xbb\xbf"
_TRIGGER_ID = re.compile("trg_[0-9a-f]{12}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a document, counted from 1, in normal form: written defaults as they are stored."""

    number: int
    kind: Kind
    body: dict[str, Json]

    @property
    def key(self) -> tuple[str, ...] | None:
        """What no other line may have; None for a trigger without an id."""
        if self.kind != "trigger":
            return (self.kind, self.body["name"])
        return (self.kind, self.body["table"], self.body["id"]) if "id" in self.body else None

    def pointer(self, within: str = "") -> str:
        """Return the pointer to a place of the line from the whole document."""
        return f"/{self.number}{within}"


def read_document(data: bytes, *, kinds: Collection[Kind] = KINDS) -> list[Line]:
    """Return the lines of a document in their order; blank ones count, and say nothing.

    Raises InvalidInput with the faults of all lines: ``bundle_line_invalid``, ``field_missing``,
    ``field_invalid``, ``field_unknown``, ``bundle_line_duplicate``, ``bundle_kind_forbidden``, and
    those of ``strict_json``. Their pointers begin with the number of the line.
    """
    lines: list[Line] = []
    faults: list[Fault] = []
    first: dict[tuple[str, ...], int] = {}
    for number, text in enumerate(data.removeprefix(_BOM).split(b"\n"), start=1):
        if not text.strip():
            continue
        line, found = _read_line(number, text, kinds)
        if line is not None and line.key is not None:
            found = found or list(_duplicate(line, first.setdefault(line.key, number)))
        faults += under(f"/{number}", found)
        if line is not None:
            lines.append(line)
        if len(faults) >= MAX_TOLD:
            break
    if faults:
        raise InvalidInput.of(faults[:MAX_TOLD])
    return lines


def _duplicate(line: Line, first: int) -> Iterator[Fault]:
    if first != line.number:
        key = "/id" if line.kind == "trigger" else "/name"
        message = f"the {line.kind} '{cut(line.body[key[1:]])}' stands on line {first} already"
        yield Fault(code="bundle_line_duplicate", pointer=key, message=message)


def _read_line(
    number: int, text: bytes, kinds: Collection[Kind]
) -> tuple[Line | None, list[Fault]]:
    try:
        raw = loads(text)
    except InvalidInput as error:
        return None, [_on_line(number, fault) for fault in error.faults]
    if not isinstance(raw, dict):
        return None, [_fault("bundle_line_invalid", "", "a line must be an object")]
    kind = raw.get("kind")
    if kind not in KINDS:
        message = f"kind must be one of: {', '.join(KINDS)}"
        return None, [_fault("bundle_line_invalid", "/kind", message)]
    if kind not in kinds:
        message = f"the bundle of a channel holds tables and triggers, a {kind} is the tenant's"
        return None, [_fault("bundle_kind_forbidden", "/kind", message)]
    body = {key: value for key, value in raw.items() if key != "kind"}
    faults = in_document_order(raw, _body_faults(kind, body))
    if faults:
        return None, faults
    normal = _NORMAL.get(kind, dict)(body)
    return Line(number=number, kind=kind, body=as_stored(normal)), []


def _on_line(number: int, fault: Fault) -> Fault:
    """Return a fault of the text of a line; the reader counts lines of its own."""
    message = fault.message.replace("(line 1 ", f"(line {number} ")
    return Fault(code=fault.code, pointer=fault.pointer, message=message)


_Check = Callable[[Json], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    check: _Check
    required: bool = True


def _anything(_: Json) -> None:
    """What it may be is told where it is saved."""


def _text(longest: int) -> _Check:
    def check(value: Json) -> str | None:
        if isinstance(value, str) and 1 <= len(value) <= longest and value.strip():
            return None
        return f"must be a text of 1 to {longest} characters"

    return check


def _matching(pattern: re.Pattern[str], said: str) -> _Check:
    def check(value: Json) -> str | None:
        return None if isinstance(value, str) and pattern.fullmatch(value) else said

    return check


def _channel(value: Json) -> str | None:
    said = "must be null or a UUID in lower case"
    return None if value is None else _matching(_UUID, said)(value)


def _boolean(value: Json) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _object(value: Json) -> str | None:
    return None if isinstance(value, dict) else "must be an object"


def _approval(value: Json) -> str | None:
    choices = get_args(Approval)
    return None if value in choices else f"must be one of: {', '.join(choices)}"


_FIELDS: Mapping[Kind, Mapping[str, _Field]] = {
    "table": {
        "name": _Field(check=_text(MAX_NAME)),
        "columns": _Field(check=_anything),
        "channel_id": _Field(check=_channel, required=False),
        "approval": _Field(check=_approval, required=False),
    },
    "trigger": {
        "table": _Field(check=_text(MAX_NAME)),
        **{key: _Field(check=_anything, required=False) for key in TRIGGER_KEYS},
        "id": _Field(
            check=_matching(_TRIGGER_ID, "must be 'trg_' and 12 hex digits in lower case"),
            required=False,
        ),
    },
    "trigger_rule": {
        "name": _Field(check=_text(MAX_RULE_NAME)),
        "event": _Field(check=_text(MAX_EVENT_NAME)),
        "conditions": _Field(check=_anything, required=False),
        "actions": _Field(check=_anything),
        "enabled": _Field(check=_boolean, required=False),
    },
    "workflow": {
        "name": _Field(check=_text(MAX_WORKFLOW_NAME)),
        "nodes": _Field(check=_anything),
    },
    "command": {
        "name": _Field(check=_text(MAX_NAME)),
        "url": _Field(check=_text(MAX_URL)),
        "input_schema": _Field(check=_object),
    },
}


def _body_faults(kind: Kind, body: Mapping[str, Json]) -> Iterator[Fault]:
    fields = _FIELDS[kind]
    for key in unknown_keys(body, fields):
        message = unknown_key(key, f"a line of kind {kind}", fields)
        yield _fault("field_unknown", child("", key), message)
    for key, field in fields.items():
        if key not in body:
            if field.required:
                yield _fault("field_missing", child("", key), f"{key} is missing")
        elif said := field.check(body[key]):
            yield _fault("field_invalid", child("", key), f"{key} {said}")


def _fault(code: str, pointer: str, message: str) -> Fault:
    return Fault(code=code, pointer=pointer, message=message)


def _normal_trigger(body: dict[str, Json]) -> dict[str, Json]:
    """Return a trigger as it would be stored; what is invalid stays, to be refused at the save."""
    written = {"name": "", "enabled": True, "when": []} | body
    if "schedule" in body:
        written["schedule"] = normal_form(body["schedule"])
    return {key: written[key] for key in ("table", *TRIGGER_KEYS) if key in written}


def _normal_rule(body: dict[str, Json]) -> dict[str, Json]:
    return {"conditions": [], "enabled": True} | body


_NORMAL: Mapping[str, Callable[[dict[str, Json]], dict[str, Json]]] = {
    "trigger": _normal_trigger,
    "trigger_rule": _normal_rule,
}


def table_body(table: CustomTable, *, of_channel: bool) -> dict[str, Json]:
    """Return a stored table as a line says it; in the bundle of a channel that goes unsaid."""
    told: dict[str, Json] = {"name": table.name}
    if table.channel_id is not None and not of_channel:
        told["channel_id"] = str(table.channel_id)
    columns = [column.to_json() for column in table.columns]
    return told | {"approval": table.approval, "columns": columns}


def trigger_body(table: str, stored: Mapping[str, Json]) -> dict[str, Json]:
    """Return a stored trigger as a line says it, but for the tables in its actions."""
    known = {key: stored[key] for key in TRIGGER_KEYS if key in stored}
    return {"table": table, **known, **stored}


def rule_body(rule: TriggerRule) -> dict[str, Json]:
    """Return a stored rule as a line says it, but for the tables in its actions."""
    return {
        "name": rule.name,
        "event": rule.event,
        "enabled": rule.enabled,
        "conditions": rule.conditions,
        "actions": rule.actions,
    }


def workflow_body(workflow: Workflow) -> dict[str, Json]:
    """Return a stored workflow as a line says it, but for the tables in its actions."""
    return {"name": workflow.name, "nodes": workflow.nodes}


def command_body(command: Command) -> dict[str, Json]:
    """Return a stored command as a line says it; keys that sign are no part of it."""
    return {"name": command.name, "url": command.url, "input_schema": command.input_schema}


def dump_line(kind: Kind, body: Mapping[str, Any]) -> str:
    """Return a resource as a line of a document, with its end."""
    return json.dumps(as_written({"kind": kind, **body}), ensure_ascii=False) + "\n"
