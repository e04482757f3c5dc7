"""Runs of triggers: their states, receipts, and what a resumed run may skip."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A run that a worker holds under ``lease_token``, with all it needs to execute it.

    ``snapshot`` has cells by column id, None for a run without a row. ``open_action`` is the
    position of an external action that may have been sent without a receipt. ``starts`` counts
    every start and only grows; ``attempts`` is the retry budget.
    """

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
