"""Scheduled actions in the hands of a moderator: changed, cancelled, run now, retried."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.scheduled_actions import MAX_DELAY_SECONDS, Branch, ScheduledAction
from shared.domain.work import MAX_CANCELLED, CancelCounts
from shared.errors import Conflict, Fault, InvalidInput
from shared.queries import action_moves
from shared.queries.action_lists import ActionFilter, count_actions, get_action
from shared.queries.notifications import notify_work
from shared.usecases.edited_settings import settings_faults

_MAX_DELAY = timedelta(seconds=MAX_DELAY_SECONDS)


def edit_action(
    conn: Connection,
    tenant_id: UUID,
    action_id: int,
    *,
    execute_at: datetime | None,
    action_config: Mapping[str, Any] | None,
    now: datetime,
) -> ScheduledAction:
    """Give a pending action another time or other settings, and return it; None leaves it as it is.

    The deadline of a wait moves with its time. Settings are checked as where the action was
    authored, and have no ``delay``. Raises NotFound, Conflict ``action_not_pending``, InvalidInput
    ``execute_at_out_of_bounds``, ``step_has_no_action`` and whatever a save says of an action.
    """
    with conn.transaction():
        action = get_action(conn, tenant_id, action_id)
        if action.status != "pending":
            raise _not_pending(action, "changed")
        faults = [*_time_faults(execute_at, now), *settings_faults(conn, action, action_config)]
        if faults:
            raise InvalidInput.of(faults)
        is_changed = action_moves.edit(
            conn, tenant_id, action_id, execute_at=execute_at, action_config=action_config, now=now
        )
        if not is_changed:
            raise _not_pending(get_action(conn, tenant_id, action_id), "changed")
        notify_work(conn)
        return get_action(conn, tenant_id, action_id)


def _time_faults(execute_at: datetime | None, now: datetime) -> list[Fault]:
    if execute_at is None or now < execute_at <= now + _MAX_DELAY:
        return []
    message = "execute_at must be later than now, and at most 366 days from now"
    return [Fault(code="execute_at_out_of_bounds", pointer="/execute_at", message=message)]


def cancel_action(
    conn: Connection, tenant_id: UUID, action_id: int, *, now: datetime
) -> ScheduledAction:
    """End a pending action as cancelled and return it; with it ends the execution it is a step of.

    Raises NotFound, Conflict ``action_not_pending``.
    """
    with conn.transaction():
        cancelled = action_moves.cancel(conn, tenant_id, action_id, now=now)
        action = get_action(conn, tenant_id, action_id)
        if not cancelled:
            raise _not_pending(action, "cancelled")
        return action


def cancel_actions(
    conn: Connection, tenant_id: UUID, filter: ActionFilter, *, dry_run: bool, now: datetime
) -> CancelCounts:
    """End the pending actions that a filter finds, up to 10,000 of them; a dry run only counts.

    Raises InvalidInput ``filter_empty`` for a filter that would find all.
    """
    if filter == ActionFilter():
        message = "an empty filter would cancel everything: name a subject, a workflow or a time"
        raise InvalidInput.of([Fault(code="filter_empty", pointer="", message=message)])
    pending = replace(filter, status="pending")
    with conn.transaction():
        matched = count_actions(conn, tenant_id, pending)
        if dry_run:
            return CancelCounts(matched=matched, cancelled=0)
        cancelled = action_moves.cancel_matching(
            conn, tenant_id, pending, limit=MAX_CANCELLED, now=now
        )
        return CancelCounts(matched=max(matched, cancelled), cancelled=cancelled)


def run_action_now(
    conn: Connection, tenant_id: UUID, action_id: int, *, branch: Branch | None, now: datetime
) -> ScheduledAction:
    """Make a pending action due at once, a wait with the branch that it is to take; return it.

    Raises NotFound, InvalidInput ``branch_missing`` on a wait and ``branch_not_expected`` on any
    other, Conflict ``action_not_pending``, ``branch_decided`` when the wait takes the other branch
    already, and ``link_clicked`` when it is to expire though its link was clicked in time.
    """
    with conn.transaction():
        _check_branch(get_action(conn, tenant_id, action_id), branch)
        moved = action_moves.bring_forward(conn, tenant_id, action_id, branch=branch, now=now)
        action = get_action(conn, tenant_id, action_id)
        if not moved:
            raise _why_not_now(action, branch)
        notify_work(conn)
        return action


def _check_branch(action: ScheduledAction, branch: Branch | None) -> None:
    if action.mode == "waitForTracking" and branch is None:
        code, message = (
            "branch_missing",
            "this is a wait: say which branch it takes, clicked or expired",
        )
    elif action.mode == "normal" and branch is not None:
        code, message = "branch_not_expected", "this is not a wait: it has no branches"
    else:
        return
    raise InvalidInput.of([Fault(code=code, pointer="/branch", message=message)])


def _why_not_now(action: ScheduledAction, branch: Branch | None) -> Conflict:
    if action.status != "pending":
        return _not_pending(action, "run now")
    if action.branch not in (None, branch):
        message = f"the wait has taken its branch already: {action.branch}"
        return Conflict(message, code="branch_decided")
    message = "the link was clicked before the deadline: the wait takes the branch clicked"
    return Conflict(message, code="link_clicked")


def retry_action(
    conn: Connection, tenant_id: UUID, action_id: int, *, now: datetime
) -> ScheduledAction:
    """Queue a failed action again, with a fresh budget, and return it; a wait keeps its branch.

    Raises NotFound, Conflict ``action_not_failed``.
    """
    with conn.transaction():
        rearmed = action_moves.rearm(conn, tenant_id, action_id, now=now)
        action = get_action(conn, tenant_id, action_id)
        if not rearmed:
            message = (
                f"scheduled action {action.id} is {action.status}; only failed ones can be retried"
            )
            raise Conflict(message, code="action_not_failed")
        notify_work(conn)
        return action


def _not_pending(action: ScheduledAction, done: str) -> Conflict:
    message = f"scheduled action {action.id} is {action.status}; only pending ones can be {done}"
    return Conflict(message, code="action_not_pending")
