"""Staged changes: what actions want to write into a table that asks for approval (spec 2 §7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from shared.domain.strict_json import Json
from shared.domain.work import WorkKind

ChangeStatus = Literal["pending", "approved", "rejected", "applied", "failed"]
Operation = Literal["create", "update", "delete"]
Verdict = Literal["approved", "rejected"]

MAX_REASON = 1000
MAX_PENDING = 10_000
"""How many changes of a table may wait for a review before no action adds one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The action that wants to write: its key, and the work that executes it.

    ``depth`` is that of the runs which the write will cause.
    """

    key: str
    work_kind: WorkKind
    work_id: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChange:
    """A change to be staged, once for the key of its origin; cells are by column id.

    ``base`` has the cells that an update is to replace, of a delete all cells; with it goes
    ``base_version``, the record's version then. A create has neither, a delete nothing proposed.
    """

    operation: Operation
    origin: Origin
    record_id: int | None = None
    base_version: int | None = None
    base: Mapping[str, Json] | None = None
    proposed: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChange:
    """A staged change; ``record_id`` of a create is the record that it made, None until then.

    ``run_id`` or ``scheduled_action_id`` names the work that staged it. ``reviewed_by`` is the API
    token of the review; None after one: the admin's.
    """

    id: int
    tenant_id: UUID
    table_id: UUID
    record_id: int | None
    operation: Operation
    base_version: int | None
    base: dict[str, Any] | None
    proposed: dict[str, Any] | None
    origin_key: str
    run_id: int | None
    scheduled_action_id: int | None
    depth: int
    status: ChangeStatus
    reviewed_at: datetime | None
    reviewed_by: UUID | None
    reason: str | None
    announcements: int
    token: UUID
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedChange:
    """An approved change that was offered to a worker; ``lease_token`` is its own token.

    Nobody holds it: its application is one transaction, and whoever comes second finds it ended. So
    it has no attempts to count, and no receipts.
    """

    work_kind: ClassVar[Literal["staged_change"]] = "staged_change"
    attempts: ClassVar[int] = 0
    starts: ClassVar[int] = 0
    worker_losses: ClassVar[int] = 0
    depth: ClassVar[int] = 0
    open_action: ClassVar[int | None] = None
    action_results: ClassVar[list[dict[str, Any]]] = []
    unreadable: ClassVar[str | None] = None

    id: int
    tenant_id: UUID
    table_id: UUID
    lease_token: UUID


def review_refusal(change: StagedChange, verdict: Verdict) -> str:
    """Return the message for a change that may not be approved or rejected."""
    return f"staged change {change.id} is {change.status}; only pending ones can be {verdict}"
