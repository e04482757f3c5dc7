"""Runs of triggers: their states, receipts, and what a resumed run may skip."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from shared.domain.instants import instant_text
from shared.domain.strict_json import MAX_INTEGER, Json

RunStatus = Literal["pending", "running", "done", "failed"]
RunKind = Literal[
    "date_column_reached",
    "interval",
    "daily",
    "cron",
    "record_created",
    "record_updated",
    "record_deleted",
]

STALE_SECONDS = 300
"""A running run that nobody has touched for so long counts as stuck, and may be retried."""

MAX_ERROR = 1000
MAX_DETAIL = 300
_MAX_RESULT_TEXT = 4000
_MAX_RESULT_ITEMS = 200
_MAX_RESULT_DEPTH = 16
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as people see it; ``snapshot`` has cells by column id, None for a run without a row."""

    id: int
    tenant_id: UUID
    table_id: UUID
    trigger_id: str
    kind: RunKind
    record_id: int | None
    identity: str
    window_key: str | None
    scheduled_for: datetime
    status: RunStatus
    attempts: int
    starts: int
    worker_losses: int
    depth: int
    next_attempt_at: datetime | None
    leased_until: datetime | None
    definition_hash: bytes
    snapshot: dict[str, Any] | None
    action_results: list[dict[str, Any]]
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run that a worker holds under ``lease_token``, with all it needs to execute it.

    ``snapshot`` has cells by column id, None for a run without a row. ``open_action`` is the
    position of an external action that may have been sent without a receipt. ``starts`` counts
    every start and only grows; ``attempts`` is the retry budget. ``unreadable``: why snapshot or
    receipts could not be read; then neither is there, and nothing may be executed.
    """

    work_kind: ClassVar[Literal["trigger_run"]] = "trigger_run"

    id: int
    tenant_id: UUID
    table_id: UUID
    table_lives: bool
    trigger_id: str
    kind: RunKind
    record_id: int | None
    identity: str
    window_key: str | None
    scheduled_for: datetime
    definition_hash: bytes
    snapshot: dict[str, Any] | None
    action_results: list[dict[str, Any]]
    open_action: int | None
    attempts: int
    starts: int
    worker_losses: int
    depth: int
    lease_token: UUID
    created_at: datetime
    unreadable: str | None = None


def retry_refusal(status: RunStatus) -> str:
    """Return the message for a run that may not be retried."""
    return f"run is {status}; only failed/pending (or stale-running) runs can be retried"


def receipt(
    action_type: str,
    *,
    ok: bool,
    detail: str | None,
    attempts: int,
    started_at: datetime,
    finished_at: datetime,
    result: Mapping[str, Json],
) -> dict[str, Json]:
    """Return an action's receipt ``{type, ok, detail?, attempts, started_at, finished_at, …}``.

    ``attempts`` counts the executions of this action. A failure always has a detail, and its
    ``result`` says whether it was ``transient``. The receipt is bounded and clean: what a stranger
    answered must never keep it from being stored. Its detail has still the length of an error.
    """
    told = {} if detail is None and ok else {"detail": clean_text(detail or "failed", MAX_ERROR)}
    own: dict[str, Json] = {
        "type": action_type,
        "ok": ok,
        **told,
        "attempts": attempts,
        "started_at": instant_text(started_at),
        "finished_at": instant_text(finished_at),
    }
    return {**own, **_clean(dict(result), _MAX_RESULT_DEPTH), **own}


def stored_receipts(receipts: Iterable[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return receipts as runs keep them, details cut at 300 characters."""
    return [
        {**one, "detail": one["detail"][:MAX_DETAIL]} if "detail" in one else dict(one)
        for one in receipts
    ]


def run_error(position: int, action_type: str, detail: str) -> str:
    """Return the error of a run that failed at its action ``position``, which counts from 1."""
    return clean_text(f"action {position} ({action_type}): {detail}", MAX_ERROR)


def clean_text(text: str, limit: int) -> str:
    """Return a text that can be stored: cut, with NUL and lone surrogates replaced."""
    return _UNSTORABLE.sub("\ufffd", text[:limit])


def _clean(value: Json, levels: int) -> Json:
    match value:
        case str():
            return clean_text(value, _MAX_RESULT_TEXT)
        case bool() | None:
            return value
        case int():
            return value if abs(value) <= MAX_INTEGER else None
        case float():
            return value if math.isfinite(value) else None
        case dict() if levels:
            items = list(value.items())[:_MAX_RESULT_ITEMS]
            return {clean_text(str(key), 200): _clean(item, levels - 1) for key, item in items}
        case list() | tuple() if levels:
            return [_clean(item, levels - 1) for item in value[:_MAX_RESULT_ITEMS]]
        case _:
            return None


def is_settled(known: Mapping[str, Any], *, action: Mapping[str, Any]) -> bool:
    """Tell whether an execution of a run passes over an action with this earlier receipt.

    That is one that ended well, or failed for good (not ``transient``) in an action that the run
    goes on past (``on_error: "continue"``). A retry by hand makes all failures transient again.
    """
    if known["ok"]:
        return True
    return not known["transient"] and action.get("on_error") == "continue"


def is_unfinished(known: Mapping[str, Any]) -> bool:
    """Tell whether a receipt is that of an action between two of its steps."""
    return bool(known.get("unfinished", False))


def idempotency_key(
    *,
    tenant_id: UUID,
    table_id: UUID,
    trigger_id: str,
    record_id: int | None,
    identity: str,
    written_at: datetime | None,
    position: int,
) -> str:
    """Return the key of an action's outgoing requests: 64 hex digits, the same at every attempt.

    It does not name the run, so that it survives the loss of the row. ``written_at`` is the instant
    of the write that caused the run; None on a schedule, and for what was frozen before keys had
    it. A database that was restored gives ids and versions out again, and another write is to be
    another call. ``position`` is from 0.
    """
    parts = [str(tenant_id), str(table_id), trigger_id, record_id, identity, position]
    if written_at is not None:
        parts.append(written_at.astimezone(UTC).isoformat())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
