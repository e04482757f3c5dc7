"""What becomes of a claimed scheduled action: it is executed, passed over, or called off.

Its subject is looked at as it is now. A wait has its branch by now: whoever claimed it let a
statement of its own decide (``intake``).
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from services.worker.action_script import ActionScript, event_of
from services.worker.definitions import Definition, Definitions
from services.worker.execution import finish
from services.worker.following import NextStep, OnExpiry
from services.worker.steps import Finish, Follow, Postpone
from shared.domain.conditions import matches, read_when
from shared.domain.event_rules import CONDITIONS_UNREADABLE, conditions_hold
from shared.domain.runs import MAX_ERROR, clean_text, receipt, run_error
from shared.domain.scheduled_actions import NOT_CLICKED, ClaimedAction
from shared.effects.delays import ON_EXPIRY_ALONE
from shared.tracking.click_store import ClickStore

SUBJECT_GONE = "subject no longer exists"
CONDITIONS_FAIL = "conditions no longer pass"

_DELAY = "delay"
_WAIT = "wait_for_tracking"


def begin_action(
    action: ClaimedAction, definitions: Definitions, *, clicks: ClickStore, now: datetime
) -> ActionScript | Finish | Postpone:
    """Return what a scheduled action executes, or the step that settles it without."""
    if action.unreadable is not None:
        error = clean_text(f"the action cannot be read: {action.unreadable}", MAX_ERROR)
        return finish(action, None, error=error)
    follow = _next_step(action, clicks)
    if (refused := action.context.get("refused")) is not None:
        goes_on = action.action_config.get("on_error") == "continue"
        error = run_error(1, action.action_type, refused)
        return finish(action, None, error=error, follow=follow if goes_on else None)
    if action.mode == "waitForTracking" and action.branch is None:
        # Its deadline was moved under our hands, or the database's clock was.
        return _not_yet(action, now=now)
    if _is_orphan(action):
        return _called_off(action, SUBJECT_GONE)
    hash = action.definition_hash
    definition = None if hash is None else definitions.get(action.tenant_id, hash)
    if not _still_pass(action, definition):
        return _called_off(action, CONDITIONS_FAIL)
    if action.action_type in (_DELAY, _WAIT):
        return _passed(action, action.action_type, follow, now=now)
    if action.branch == "expired":
        return _expired(action, follow, now=now)
    return ActionScript(work=action, definition=definition, follow=follow)


def _is_orphan(action: ClaimedAction) -> bool:
    """Whether the contact, the table, or the record of its subject is gone."""
    return (
        (action.line_user_id is not None and action.line_user is None)
        or action.table_lives is False
        or (action.record_id is not None and action.record is None)
    )


def _still_pass(action: ClaimedAction, definition: Definition | None) -> bool:
    """Whether the conditions hold on the subject as it is now, if they are to be judged again."""
    conditions = action.source_config
    if conditions is None or conditions.get(ON_EXPIRY_ALONE):
        return True
    if "branches" in conditions:
        # Of a workflow: each branch that led here is to be decided again as it was.
        return all(_hold(action, each["when"]) == each["held"] for each in conditions["branches"])
    when: list[dict[str, Any]] = conditions["when"]
    if definition is None:
        return _hold(action, when)
    # Whether a cell was changed by the write that led here was true then, and stays so.
    lasting = [predicate for predicate in when if predicate["op"] != "changed"]
    predicates, faults = read_when(lasting, definition.columns, on=None)
    if faults:
        raise ValueError(CONDITIONS_UNREADABLE)
    return action.record is None or matches(predicates, action.record.data)


def _hold(action: ClaimedAction, when: list[dict[str, Any]]) -> bool:
    """Whether conditions on the event and the contact hold."""
    return conditions_hold(when, event=event_of(action) or {}, line_user=action.line_user)


def _next_step(action: ClaimedAction, clicks: ClickStore) -> NextStep | None:
    """Return what follows in the workflow; only a node that waits has branches of its own."""
    if action.execution is None:
        return None
    branch = action.branch if action.action_type == _WAIT else None
    return NextStep(action=action, branch=branch, clicks=clicks)


def _expired(action: ClaimedAction, follow: NextStep | None, *, now: datetime) -> Finish:
    """Return the end of an action that nobody clicked for; a workflow goes on behind it."""
    if not action.on_expire:
        return replace(_called_off(action, NOT_CLICKED), follow=follow)
    return _passed(action, "on_expire", OnExpiry(wait=action, then=follow), now=now)


def _called_off(action: ClaimedAction, reason: str) -> Finish:
    return Finish(work=action, receipts=None, status="cancelled", error=reason)


def _passed(action: ClaimedAction, what: str, follow: Follow | None, *, now: datetime) -> Finish:
    """Return the end of what only had to wait; its receipt tells what it waited for."""
    told = receipt(
        what,
        ok=True,
        detail=None,
        attempts=action.attempts,
        started_at=now,
        finished_at=now,
        result={} if action.branch is None else {"branch": action.branch},
    )
    return finish(action, [told], error=None, follow=follow)


def _not_yet(action: ClaimedAction, *, now: datetime) -> Postpone:
    assert action.expires_at is not None
    seconds = max((action.expires_at - now).total_seconds(), 1.0)
    return Postpone(work=action, receipts=None, delay_seconds=seconds, action_type=None)
