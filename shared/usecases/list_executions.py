"""Where the executions of a workflow stand, by what their newest steps tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.domain.executions import ExecutionStatus, WorkflowExecution
from shared.queries import executions
from shared.queries.workflows import get_workflow

_LOOKED_AT = 5000
"""Executions that one call looks at for those of a status."""

Place = tuple[datetime, UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPage:
    """A page of executions; ``more``: the place behind which the next one begins, or None."""

    items: Sequence[WorkflowExecution]
    more: Place | None


def list_executions(
    conn: Connection,
    tenant_id: UUID,
    workflow_id: int,
    *,
    status: ExecutionStatus | None,
    line_user_id: int | None,
    before: Place | None,
    limit: int,
) -> ExecutionPage:
    """Return a page of a workflow's executions, the newest first.

    With a ``status`` it may be short although others follow, since the status is no column: it is
    told by the steps. Raises NotFound ``workflow_not_found``.
    """
    get_workflow(conn, tenant_id, workflow_id)
    looked_at = limit if status is None else max(limit, _LOOKED_AT)
    found = executions.list_executions(
        conn,
        tenant_id,
        workflow_id,
        line_user_id=line_user_id,
        before=before,
        limit=looked_at + 1,
    )
    wanted = [one for one in found[:looked_at] if status in (None, one.status)]
    if len(wanted) > limit:
        return ExecutionPage(items=wanted[:limit], more=_place(wanted[limit - 1]))
    last = found[looked_at - 1] if len(found) > looked_at else None
    return ExecutionPage(items=wanted, more=None if last is None else _place(last))


def _place(execution: WorkflowExecution) -> Place:
    return execution.started_at, execution.id
