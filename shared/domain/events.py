"""Events as their senders tell them: what they may hold, and when two are the same."""

import json
from collections.abc import Mapping
from hashlib import sha256

from shared.domain.columns import MAX_JSON_VALUES, count_values
from shared.domain.strict_json import Json
from shared.errors import Fault

MAX_EVENT_DATA = 65_536
"""Characters of an event's data, written as JSON: every action that it leads to keeps a copy."""


MAX_COPIES = 16_000_000
"""Characters of all these copies together: more of them take longer than a transaction may."""


def copies_faults(data: Mapping[str, Json], *, actions: int) -> list[Fault]:
    """Return why so many actions cannot each keep a copy of an event's data."""
    if actions * len(json.dumps(data, ensure_ascii=False)) <= MAX_COPIES:
        return []
    message = (
        f"the event leads to {actions} actions, and the copies of its data that they keep have"
        f" at most {MAX_COPIES} characters together"
    )
    return [Fault(code="event_data_too_large", pointer="/data", message=message)]


def data_faults(data: Mapping[str, Json], pointer: str = "/data") -> list[Fault]:
    """Return why an object cannot be the data of an event."""
    if len(json.dumps(data, ensure_ascii=False)) > MAX_EVENT_DATA:
        message = f"the data of an event has at most {MAX_EVENT_DATA} characters"
    elif count_values(dict(data)) > MAX_JSON_VALUES:
        message = f"the data of an event has at most {MAX_JSON_VALUES} values"
    else:
        return []
    return [Fault(code="event_data_too_large", pointer=pointer, message=message)]


def event_hash(*, name: str, line_user_id: int | None, data: Mapping[str, Json]) -> bytes:
    """Return the hash by which the same event is known again, whatever the order of its keys."""
    told = json.dumps([name, line_user_id, data], sort_keys=True, separators=(",", ":"))
    return sha256(told.encode()).digest()
