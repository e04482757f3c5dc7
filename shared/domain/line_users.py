"""Contacts of a tenant, as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from shared.domain.faults import MAX_TOLD, child, cut
from shared.domain.strict_json import Json
from shared.errors import Fault

MAX_EXTERNAL_ID = 200
MAX_DISPLAY_NAME = 200
MAX_ATTRIBUTES = 200
MAX_ATTRIBUTE_NAME = 200
MAX_ATTRIBUTES_TEXT = 65_536
"""Characters that the attributes of a contact have together, written as JSON."""

_OWN = ("id", "external_id", "display_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUser:
    """A contact; ``external_id`` is what the tenant's own systems call it."""

    id: int
    tenant_id: UUID
    external_id: str
    display_name: str | None
    attributes: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None


def cells(line_user: LineUser) -> dict[str, Json]:
    """Return what conditions and tokens know of a contact: its attributes and its own fields."""
    return {
        **line_user.attributes,
        "id": line_user.id,
        "external_id": line_user.external_id,
        "display_name": line_user.display_name,
    }


def attribute_faults(raw: object, pointer: str = "/attributes") -> list[Fault]:
    """Return why ``raw`` cannot be the attributes of a contact.

    The names of a contact's own fields are taken: a condition on one must not mean another.
    """
    if not isinstance(raw, dict) or len(raw) > MAX_ATTRIBUTES:
        message = f"attributes must be an object of at most {MAX_ATTRIBUTES} attributes"
        return [_fault(pointer, message)]
    faults = [
        _fault(child(pointer, name), problem)
        for name, problem in islice(_name_problems(raw), MAX_TOLD)
    ]
    if not faults and len(json.dumps(raw, ensure_ascii=False)) > MAX_ATTRIBUTES_TEXT:
        message = f"attributes must have at most {MAX_ATTRIBUTES_TEXT} characters together"
        faults.append(_fault(pointer, message))
    return faults


def _name_problems(raw: Mapping[str, object]) -> list[tuple[str, str]]:
    problems = []
    for name in raw:
        if not 1 <= len(name) <= MAX_ATTRIBUTE_NAME:
            message = f"the name of an attribute must have 1 to {MAX_ATTRIBUTE_NAME} characters"
            problems.append((name, message))
        elif name in _OWN:
            problems.append((name, f"'{cut(name)}' is a contact's own field, and no attribute"))
    return problems


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="attributes_invalid", pointer=pointer, message=message)
