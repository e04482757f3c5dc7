"""Scheduled actions: single actions that wait for their time or for a click (spec 3 §2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from shared.domain.line_users import LineUser
from shared.domain.records import Record

ActionStatus = Literal["pending", "processing", "done", "failed", "cancelled"]
Mode = Literal["normal", "waitForTracking"]
Branch = Literal["clicked", "expired"]

MAX_DELAY_SECONDS = 366 * 86_400

NOT_CLICKED = "nobody clicked in time"
"""Why a wait is cancelled that expired and has nothing to run then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAction:
    """A scheduled action that is to be recorded, once for its ``origin_key``.

    ``action_config`` has no ``delay`` any more. ``context`` is what the subject cannot tell when
    the action comes due: ``run`` (``id``, ``scheduled_for``), or ``event`` (its data),
    ``event_name``, ``rule_name`` and ``links`` (tokens by name); of a workflow's step the execution
    keeps that. ``refused`` in it says why the action can only fail. ``branch`` is set only where it
    is decided already.
    """

    tenant_id: UUID
    origin_key: str
    mode: Mode = "normal"
    execute_at: datetime
    expires_at: datetime | None = None
    branch: Branch | None = None
    action_type: str
    action_config: Mapping[str, Any]
    source_config: Mapping[str, Any] | None = None
    on_expire: tuple[Mapping[str, Any], ...] | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    definition_hash: bytes | None = None
    execution_id: UUID | None = None
    workflow_id: int | None = None
    workflow_version: int | None = None
    workflow_node_path: str | None = None
    line_user_id: int | None = None
    table_id: UUID | None = None
    record_id: int | None = None
    tracking_link_id: int | None = None
    run_id: int | None = None
    event_id: int | None = None
    rule_id: int | None = None
    depth: int = 0
    urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A contact's way through a workflow, seen from the step at ``node_path``.

    It finishes on the version that it started with; ``context`` is what was given at the start.
    """

    id: UUID
    workflow_id: int
    workflow_version: int
    node_path: str
    context: dict[str, Any]
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedAction:
    """A scheduled action that a worker holds under ``lease_token``, with its subject as it is now.

    ``line_user`` and ``record`` are None where there is none, or where it is gone: the ids tell
    which. ``table_lives`` is None without a table. ``links`` are the tokens of the execution's
    tracking links by name. ``open_action`` is 0 when the call may have been sent without a receipt.
    ``edits`` counts how often people changed what it sends.
    ``unreadable``: why what belongs to it could not be read; then nothing may be executed.
    """

    work_kind: ClassVar[Literal["scheduled_action"]] = "scheduled_action"

    id: int
    tenant_id: UUID
    lease_token: UUID
    attempts: int
    starts: int
    worker_losses: int
    depth: int
    open_action: int | None
    action_results: list[dict[str, Any]]
    mode: Mode
    branch: Branch | None
    execute_at: datetime
    expires_at: datetime | None
    action_type: str
    action_config: dict[str, Any]
    source_config: dict[str, Any] | None
    on_expire: list[dict[str, Any]] | None
    origin_key: str
    context: dict[str, Any]
    definition_hash: bytes | None
    execution: Execution | None
    line_user: LineUser | None
    line_user_id: int | None
    table_id: UUID | None
    table_lives: bool | None
    record_id: int | None
    record: Record | None
    run_id: int | None
    event_id: int | None
    created_at: datetime
    rule_id: int | None = None
    tracking_link_id: int | None = None
    edits: int = 0
    links: dict[str, str] = field(default_factory=dict)
    unreadable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledAction:
    """A scheduled action as people see it; ``branch`` is None until decided, and of waits only."""

    id: int
    tenant_id: UUID
    mode: Mode
    status: ActionStatus
    branch: Branch | None
    execute_at: datetime
    expires_at: datetime | None
    action_type: str
    action_config: dict[str, Any]
    source_config: dict[str, Any] | None
    on_expire: list[dict[str, Any]] | None
    execution_id: UUID | None
    workflow_id: int | None
    workflow_version: int | None
    workflow_node_path: str | None
    line_user_id: int | None
    table_id: UUID | None
    record_id: int | None
    tracking_link_id: int | None
    run_id: int | None
    event_id: int | None
    rule_id: int | None
    depth: int
    edits: int  # how often people changed what it sends
    retry_count: int
    attempts: int
    starts: int
    worker_losses: int
    next_attempt_at: datetime | None
    leased_until: datetime | None
    action_results: list[dict[str, Any]]
    error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
