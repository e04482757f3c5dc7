"""Executions of a workflow: start one by hand, and see where each contact stands."""

import uuid
from functools import partial
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_uuid, created_position
from services.api.resources.workflows import WORKFLOW_PATH
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.executions import ExecutionStatus, WorkflowExecution
from shared.domain.line_users import MAX_DISPLAY_NAME, MAX_EXTERNAL_ID
from shared.queries.executions import get_execution
from shared.queries.workflows import get_workflow
from shared.usecases.list_executions import list_executions
from shared.usecases.manage_workflows import settle, start_by_hand

_EXECUTIONS = WORKFLOW_PATH + "/executions"
_STATUSES: tuple[ExecutionStatus, ...] = get_args(ExecutionStatus)


class ExecutionContactSchema(StrictSchema):
    """The contact of an execution, by its present names."""

    id = fields.Integer(required=True)
    external_id = fields.Text(max=MAX_EXTERNAL_ID, required=True)
    display_name = fields.Text(max=MAX_DISPLAY_NAME, required=True, allow_none=True)


class ExecutionSchema(StrictSchema):
    """Where an execution stands: at its newest step, waiting for it, running it, or at its end."""

    id = fields.Uuid(required=True)
    workflow_id = fields.Integer(required=True)
    workflow_version = fields.Integer(required=True)
    line_user = fields.Nested(ExecutionContactSchema, required=True, allow_none=True)
    status = fields.Choice(*_STATUSES, required=True)
    node_path = fields.Text(
        max=200,
        required=True,
        allow_none=True,
        metadata={
            "description": "the node that it is at, in its version of the workflow",
            "examples": ["1.not_clicked.0"],
        },
    )
    next_due_at = fields.Instant(required=True, allow_none=True)
    error = fields.Text(max=1000, required=True, allow_none=True)
    depth = fields.Integer(required=True)
    started_at = fields.Instant(required=True)


class WholeExecutionSchema(ExecutionSchema):
    """An execution with what was given at its start."""

    context = fields.Members(required=True)


class ExecutionPageSchema(StrictSchema):
    """A page of executions, the newest first; with a status it may be short and others follow."""

    items = fields.Items(fields.Nested(ExecutionSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class ExecutionListQuery(TenantPageQuery):
    """Which executions."""

    status = fields.Choice(*_STATUSES)
    line_user_id = fields.QueryInteger(min=1)


class NewExecutionSchema(StrictSchema):
    """For whom a workflow is started, and what its conditions and tokens know as the event."""

    line_user_id = fields.Integer(min=1, allow_none=True, load_default=None)
    context = fields.Members(
        load_default=dict,
        metadata={
            "description": "event.<key> and $event.<key> in the workflow",
            "examples": [{"order": 1027}],
        },
    )


def _start(call: Call) -> Answer:
    started = start_by_hand(
        call.conn,
        tenant_id=call.tenant_id,
        workflow_id=call.ids["workflow_id"],
        line_user_id=call.body["line_user_id"],
        context=call.body["context"],
        key=uuid.uuid4(),
        clicks=call.clicks,
        waiting=call.waiting,
        now=call.now,
    )
    call.after_commit.append(partial(settle, call.conn, started, clicks=call.clicks))
    return Answer(body=_whole(started.execution), status=201)


def _list(call: Call) -> Answer:
    found = list_executions(
        call.conn,
        call.tenant_id,
        call.ids["workflow_id"],
        status=call.query.get("status"),
        line_user_id=call.query.get("line_user_id"),
        before=after_uuid(call),
        limit=call.query["limit"],
    )
    body = {
        "items": [_document(execution) for execution in found.items],
        "next_cursor": None
        if found.more is None
        else call.cursors.seal(created_position(*found.more)),
    }
    return Answer(body=body)


def _get(call: Call) -> Answer:
    workflow = get_workflow(call.conn, call.tenant_id, call.ids["workflow_id"])
    execution_id = call.ids["execution_id"]
    return Answer(body=_whole(get_execution(call.conn, call.tenant_id, workflow.id, execution_id)))


def _whole(execution: WorkflowExecution) -> dict[str, Any]:
    return {**_document(execution), "context": execution.context}


def _document(execution: WorkflowExecution) -> dict[str, Any]:
    return {
        "id": execution.id,
        "workflow_id": execution.workflow_id,
        "workflow_version": execution.workflow_version,
        "line_user": _contact(execution),
        "status": execution.status,
        "node_path": execution.node_path,
        "next_due_at": execution.next_due_at,
        "error": execution.error,
        "depth": execution.depth,
        "started_at": execution.started_at,
    }


def _contact(execution: WorkflowExecution) -> dict[str, Any] | None:
    if execution.line_user_id is None:
        return None
    return {
        "id": execution.line_user_id,
        "external_id": execution.external_id,
        "display_name": execution.display_name,
    }


EXECUTION_ROUTES = (
    Route(
        method="POST",
        path=_EXECUTIONS,
        operation_id="workflows.start",
        summary="Start an execution of a workflow's newest version",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewExecutionSchema,
        answers={201: WholeExecutionSchema},
        handler=_start,
        creates=True,
    ),
    Route(
        method="GET",
        path=_EXECUTIONS,
        operation_id="workflows.executions",
        summary="See where each contact stands in a workflow, the newest first",
        roles=MODERATOR,
        query=ExecutionListQuery,
        answers={200: ExecutionPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path=_EXECUTIONS + "/<uuid:execution_id>",
        operation_id="workflows.execution",
        summary="Look at an execution",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: WholeExecutionSchema},
        handler=_get,
    ),
)
