"""Frozen definitions: what a run executes, whatever happens to its trigger and table afterwards."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from shared.domain.columns import Column
from shared.domain.strict_json import Json


def definition_body(trigger: Mapping[str, Any], columns: Iterable[Column]) -> dict[str, Json]:
    """Return what a run executes, frozen: a trigger in stored form and the columns it names.

    ``keyed_by_write`` says that the keys of its calls have the instant of the write that fired it;
    those of runs that were frozen without it never had, and must not change between two attempts.
    """
    body: dict[str, Json] = {
        "v": 1,
        "trigger": dict(trigger),
        "columns": [column.to_json() for column in columns],
    }
    return body if trigger["on"] == "schedule" else body | {"keyed_by_write": True}


def definition_hash(body: Mapping[str, Json]) -> bytes:
    """Return the 32 bytes under which a frozen definition is stored: of its canonical JSON."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()
