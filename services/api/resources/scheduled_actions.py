"""Scheduled actions: list, look at, change, cancel (one or many), run now, retry."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR
from services.api.cursors import Position
from services.api.fields import StrictSchema
from services.api.pages import page
from services.api.routes import Answer, Call, Route
from services.api.schemas import TRACE_ID, CancelCountsSchema, TenantPageQuery, TenantQuery
from shared.domain.scheduled_actions import ActionStatus, Branch, Mode, ScheduledAction
from shared.errors import Fault, InvalidInput
from shared.observability.trace_ids import Row, trace_id_of
from shared.queries.action_lists import ActionFilter, Place, get_action, list_actions, place
from shared.usecases.manage_actions import (
    cancel_action,
    cancel_actions,
    edit_action,
    retry_action,
    run_action_now,
)

_ACTIONS = "/scheduled-actions"
_ACTION = _ACTIONS + "/<id:action_id>"

_STATUSES: tuple[ActionStatus, ...] = get_args(ActionStatus)
_MODES: tuple[Mode, ...] = get_args(Mode)
_BRANCHES: tuple[Branch, ...] = get_args(Branch)

_FROM = {"description": "execute_at at or after"}
_TO = {"description": "execute_at before"}


class ScheduledActionSchema(StrictSchema):
    """An action that waits for its time, or for a click until a deadline; or what became of it.

    ``branch`` is the one that a wait took. ``result`` is the receipt of its last execution.
    """

    id = fields.Integer(required=True)
    status = fields.Choice(*_STATUSES, required=True)
    mode = fields.Choice(*_MODES, required=True)
    branch = fields.Choice(*_BRANCHES, required=True, allow_none=True)
    execute_at = fields.Instant(required=True)
    expires_at = fields.Instant(required=True, allow_none=True)
    action_type = fields.Text(max=100, required=True)
    action_config = fields.Members(
        required=True,
        metadata={"description": "its settings without delay; of a workflow's wait, the node's"},
    )
    source_config = fields.Members(
        required=True,
        allow_none=True,
        metadata={"description": "what is judged again when it comes due"},
    )
    on_expire = fields.Items(
        fields.Members(),
        required=True,
        allow_none=True,
        metadata={"description": "actions to run if nobody clicks in time"},
    )
    line_user_id = fields.Integer(required=True, allow_none=True)
    table_id = fields.Uuid(required=True, allow_none=True)
    record_id = fields.Integer(required=True, allow_none=True)
    workflow_id = fields.Integer(required=True, allow_none=True)
    workflow_version = fields.Integer(required=True, allow_none=True)
    workflow_node_path = fields.Text(max=1000, required=True, allow_none=True)
    execution_id = fields.Uuid(required=True, allow_none=True)
    tracking_link_id = fields.Integer(required=True, allow_none=True)
    run_id = fields.Integer(required=True, allow_none=True)
    event_id = fields.Integer(required=True, allow_none=True)
    rule_id = fields.Integer(required=True, allow_none=True)
    depth = fields.Integer(required=True)
    edits = fields.Integer(
        required=True,
        metadata={"description": "how often people changed what it sends: each is another call"},
    )
    retry_count = fields.Integer(required=True)
    attempts = fields.Integer(required=True)
    starts = fields.Integer(required=True)
    worker_losses = fields.Integer(required=True)
    next_attempt_at = fields.Instant(required=True, allow_none=True)
    result = fields.Members(required=True, allow_none=True)
    error = fields.Text(max=1000, required=True, allow_none=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)
    finished_at = fields.Instant(required=True, allow_none=True)
    trace_id = fields.Text(max=32, required=True, metadata=TRACE_ID)


class ScheduledActionPageSchema(StrictSchema):
    """A page of actions; with large ones it may be short although others follow."""

    items = fields.Items(fields.Nested(ScheduledActionSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class ScheduledActionListQuery(TenantPageQuery):
    """Which actions; ``record_id`` goes with ``table_id``."""

    status = fields.Choice(*_STATUSES)
    line_user_id = fields.QueryInteger(min=1)
    table_id = fields.Uuid()
    record_id = fields.QueryInteger(min=1)
    workflow_id = fields.QueryInteger(min=1)
    execution_id = fields.Uuid()
    since = fields.Instant(data_key="from", metadata=_FROM)
    until = fields.Instant(data_key="to", metadata=_TO)


class ScheduledActionChangeSchema(StrictSchema):
    """What changes: the time, and with it the deadline of a wait, or the settings as a whole."""

    execute_at = fields.Instant(metadata={"description": "in the future, within 366 days"})
    action_config = fields.Members(
        metadata={"description": "checked as where it was authored; without delay"}
    )


class RunNowSchema(StrictSchema):
    """Which branch a wait takes: to be named for a wait, and for nothing else."""

    branch = fields.Choice(*_BRANCHES)


class CancelFilterSchema(StrictSchema):
    """Which pending actions to cancel: at least one member beside ``dry_run``."""

    line_user_id = fields.Integer(min=1)
    table_id = fields.Uuid()
    record_id = fields.Integer(min=1)
    workflow_id = fields.Integer(min=1)
    execution_id = fields.Uuid()
    since = fields.Instant(data_key="from", metadata=_FROM)
    until = fields.Instant(data_key="to", metadata=_TO)
    dry_run = fields.Boolean(
        load_default=False, metadata={"description": "count alone, cancel nothing"}
    )


def _list(call: Call) -> Answer:
    found = list_actions(
        call.conn,
        call.tenant_id,
        _filter(call.query),
        after=_after(call),
        limit=call.query["limit"],
    )
    return page(call, found.items, more=found.more, position=_position, document=_document)


def _filter(given: Mapping[str, Any]) -> ActionFilter:
    if "record_id" in given and "table_id" not in given:
        message = "record_id goes with the table_id of its table"
        raise InvalidInput.of([Fault(code="field_missing", pointer="/table_id", message=message)])
    return ActionFilter(
        status=given.get("status"),
        line_user_id=given.get("line_user_id"),
        table_id=given.get("table_id"),
        record_id=given.get("record_id"),
        workflow_id=given.get("workflow_id"),
        execution_id=given.get("execution_id"),
        from_at=given.get("since"),
        to_at=given.get("until"),
    )


def _position(action: ScheduledAction) -> Position:
    execute_at, action_id = place(action)
    return execute_at.isoformat(), action_id


def _after(call: Call) -> Place | None:
    if call.position is None:
        return None
    execute_at, action_id = call.position
    return datetime.fromisoformat(str(execute_at)), int(action_id)


def _get(call: Call) -> Answer:
    return _answer(get_action(call.conn, call.tenant_id, call.ids["action_id"]))


def _change(call: Call) -> Answer:
    action = edit_action(
        call.conn,
        call.tenant_id,
        call.ids["action_id"],
        execute_at=call.body.get("execute_at"),
        action_config=call.body.get("action_config"),
        now=call.now,
    )
    return _answer(action)


def _cancel(call: Call) -> Answer:
    action_id = call.ids["action_id"]
    return _answer(cancel_action(call.conn, call.tenant_id, action_id, now=call.now))


def _cancel_all(call: Call) -> Answer:
    counts = cancel_actions(
        call.conn,
        call.tenant_id,
        _filter(call.body),
        dry_run=call.body["dry_run"],
        now=call.now,
    )
    return Answer(body=counts)


def _run_now(call: Call) -> Answer:
    action = run_action_now(
        call.conn,
        call.tenant_id,
        call.ids["action_id"],
        branch=call.body.get("branch"),
        now=call.now,
    )
    return _answer(action)


def _retry(call: Call) -> Answer:
    action_id = call.ids["action_id"]
    return _answer(retry_action(call.conn, call.tenant_id, action_id, now=call.now))


def _answer(action: ScheduledAction) -> Answer:
    return Answer(body=_document(action))


_OWN = tuple({*ScheduledActionSchema().fields} - {"result", "trace_id"})


def _document(action: ScheduledAction) -> dict[str, Any]:
    members = {name: getattr(action, name) for name in _OWN}
    result = action.action_results[0] if action.action_results else None
    return members | {"result": result, "trace_id": trace_id_of(_traced(action))}


def _traced(action: ScheduledAction) -> Row:
    """Return the row in whose trace the action stands: a step stands in its execution's."""
    if action.execution_id is not None:
        return Row(action.tenant_id, "workflow_execution", action.execution_id)
    return Row(action.tenant_id, "scheduled_action", action.id)


SCHEDULED_ACTION_ROUTES = (
    Route(
        method="GET",
        path=_ACTIONS,
        operation_id="scheduledActions.list",
        summary="List scheduled actions, the newest first; with from or to in order of their time",
        roles=MODERATOR,
        query=ScheduledActionListQuery,
        answers={200: ScheduledActionPageSchema},
        handler=_list,
    ),
    Route(
        method="POST",
        path=_ACTIONS + "/cancel",
        operation_id="scheduledActions.cancelAll",
        summary="Cancel the pending scheduled actions that a filter finds, the oldest first",
        roles=MODERATOR,
        query=TenantQuery,
        body=CancelFilterSchema,
        answers={200: CancelCountsSchema},
        handler=_cancel_all,
    ),
    Route(
        method="GET",
        path=_ACTION,
        operation_id="scheduledActions.get",
        summary="Look at a scheduled action and its result",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: ScheduledActionSchema},
        handler=_get,
    ),
    Route(
        method="PATCH",
        path=_ACTION,
        operation_id="scheduledActions.change",
        summary="Change the time or the settings of a pending scheduled action",
        roles=MODERATOR,
        query=TenantQuery,
        body=ScheduledActionChangeSchema,
        answers={200: ScheduledActionSchema},
        handler=_change,
        conflicts=True,
    ),
    Route(
        method="POST",
        path=_ACTION + "/cancel",
        operation_id="scheduledActions.cancel",
        summary="Cancel a pending scheduled action",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: ScheduledActionSchema},
        handler=_cancel,
        conflicts=True,
    ),
    Route(
        method="POST",
        path=_ACTION + "/run-now",
        operation_id="scheduledActions.runNow",
        summary="Run a pending scheduled action now, a wait with the branch that it is to take",
        roles=MODERATOR,
        query=TenantQuery,
        body=RunNowSchema,
        body_optional=True,
        answers={200: ScheduledActionSchema},
        handler=_run_now,
        conflicts=True,
    ),
    Route(
        method="POST",
        path=_ACTION + "/retry",
        operation_id="scheduledActions.retry",
        summary="Retry a failed scheduled action by hand, with a fresh budget",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: ScheduledActionSchema},
        handler=_retry,
        conflicts=True,
    ),
)
