"""Executions of workflows as people see them: where each contact stands."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from shared.domain.scheduled_actions import NOT_CLICKED, ActionStatus

ExecutionStatus = Literal["waiting", "running", "done", "failed", "cancelled"]

_BY_STEP: dict[ActionStatus | None, ExecutionStatus] = {
    None: "done",  # there was nothing to do
    "pending": "waiting",
    "processing": "running",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowExecution:
    """An execution, and its newest step: at most one step of an execution is ever unfinished.

    ``node_path`` is that step's node and ``next_due_at`` when it is due, both None where there is
    none. ``external_id`` and ``display_name`` are the contact's as they are now. In lists
    ``context`` is None.
    """

    id: UUID
    tenant_id: UUID
    workflow_id: int
    workflow_version: int
    line_user_id: int | None
    external_id: str | None
    display_name: str | None
    context: dict[str, Any] | None
    depth: int
    started_at: datetime
    node_path: str | None
    step_status: ActionStatus | None
    next_due_at: datetime | None
    step_error: str | None

    @property
    def status(self) -> ExecutionStatus:
        """Where the execution stands: a step's end is followed by the next step at once."""
        return "done" if self._was_passed_over else _BY_STEP[self.step_status]

    @property
    def error(self) -> str | None:
        """Why it failed or was cancelled."""
        return None if self._was_passed_over else self.step_error

    @property
    def _was_passed_over(self) -> bool:
        """Whether the last step is an action whose click did not come: it ends nothing."""
        return self.step_status == "cancelled" and self.step_error == NOT_CLICKED
