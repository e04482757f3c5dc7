"""What traces tell of claimed work: the span that stands for its row, its executions, its actions.

The first is told by whoever starts the work first, from the row's birth until then; executions
stand under it, and so does what other processes tell of the row.
"""

from datetime import datetime

from services.worker.execution import Execution, Performed
from services.worker.steps import ids_of
from shared.domain.runs import ClaimedRun
from shared.domain.scheduled_actions import ClaimedAction
from shared.domain.staged_changes import ApprovedChange
from shared.domain.work import Claimed
from shared.observability import tracing
from shared.observability.spans import NOTHING, Span
from shared.observability.trace_ids import Place, Row, place_of, step_of

OK = {"duebook.outcome": "ok"}
ERROR = {"duebook.outcome": "error"}
RETRY = {"duebook.outcome": "retry"}


def begin_execution(work: Claimed, *, kept_open: bool = False) -> Span:
    """Return the span of an execution that begins."""
    if not tracing.is_on():
        return NOTHING
    return tracing.span(
        "execute",
        kind="consumer",
        under=_place(work),
        attributes={
            **_ids(work),
            "duebook.attempt": work.attempts,
            "duebook.starts": work.starts,
            "duebook.worker_losses": work.worker_losses,
        },
        kept_open=kept_open,
    )


def begin_action(execution: Execution, action: Performed, *, kept_open: bool = False) -> Span:
    """Return the span of an action that begins."""
    if not tracing.is_on():
        return NOTHING
    return tracing.span(
        f"action {action.type}",
        attributes={
            "duebook.action.type": execution.config["type"],
            "duebook.action.number": execution.position + 1,
        },
        kept_open=kept_open,
    )


def tell_first_start(work: Claimed, *, now: datetime) -> None:
    """Tell the span that stands for the row of work which begins for the first time."""
    if not tracing.is_on():
        return
    match work:
        case ClaimedRun():
            tracing.tell(
                f"trigger_run {work.kind}",
                of=_place(work),
                began_at=work.created_at,
                ended_at=now,
                attributes=_ids(work),
            )
        case ClaimedAction():
            _tell_action(work, now=now)
        case ApprovedChange():  # nobody holds it, so it has no first start: told at each
            tracing.tell(
                "staged_change", of=_place(work), began_at=now, ended_at=now, attributes=_ids(work)
            )


def _tell_action(action: ClaimedAction, *, now: datetime) -> None:
    under = None
    if (execution := action.execution) is not None:
        under = place_of(_row_of_execution(action))
        if action.created_at == execution.started_at:  # its first step: so it is told once
            tracing.tell(
                "workflow_execution",
                of=under,
                began_at=execution.started_at,
                ended_at=now,
                attributes={
                    "duebook.tenant_id": str(action.tenant_id),
                    "duebook.workflow_id": execution.workflow_id,
                    "duebook.execution_id": str(execution.id),
                },
            )
    run = Row(action.tenant_id, "trigger_run", action.run_id or 0)
    tracing.tell(
        f"scheduled_action {action.action_type}",
        of=_place(action),
        under=under,
        began_at=action.created_at,
        ended_at=now,
        attributes=_ids(action),
        links=() if action.run_id is None else (run,),
    )


def _place(work: Claimed) -> Place:
    row = Row(work.tenant_id, work.work_kind, work.id)
    if isinstance(work, ClaimedAction) and work.execution is not None:
        return step_of(row, _row_of_execution(work))
    return place_of(row)


def _row_of_execution(action: ClaimedAction) -> Row:
    assert action.execution is not None
    return Row(action.tenant_id, "workflow_execution", action.execution.id)


def _ids(work: Claimed) -> dict[str, str | int]:
    ids = {f"duebook.{name}": id for name, id in ids_of(work).items()}
    if isinstance(work, ClaimedAction) and work.event_id is not None:
        ids["duebook.event_id"] = work.event_id
    return ids
