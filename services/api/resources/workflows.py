"""Workflows: make, list, look at, replace, delete. Their executions are in ``executions``."""

from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_id, page
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.workflows import MAX_NODES, MAX_WORKFLOW_NAME, Workflow
from shared.queries.workflows import (
    delete_workflow,
    get_version,
    get_workflow,
    list_workflows,
)
from shared.usecases.manage_workflows import make_workflow, replace_workflow

WORKFLOW_PATH = "/workflows/<id:workflow_id>"

_NOTIFY = {"type": "notify", "chatroom_id": "11111111-1111-4111-8111-111111111111"}
_EXAMPLE = [
    {"type": "action", "action": {**_NOTIFY, "message": "Our offer for you: $link.offer"}},
    {
        "type": "wait_for_tracking",
        "seconds": 86_400,
        "link": "offer",
        "target_url": "https://example.com/offer",
        "clicked": [{"type": "stop"}],
        "not_clicked": [
            {"type": "action", "action": {**_NOTIFY, "message": "Still there: $link.offer"}}
        ],
    },
]
_NODES = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_NODES,
    "items": {"$ref": "#/components/schemas/Node"},
    "description": "in order; at most 200 in the whole tree, in lists of at most 8 levels",
    "examples": [_EXAMPLE],
}


class WorkflowSchema(StrictSchema):
    """A workflow in its newest version, or in the one that was asked for."""

    id = fields.Integer(required=True)
    name = fields.Text(min=1, max=MAX_WORKFLOW_NAME, required=True)
    version = fields.Integer(required=True)
    nodes = fields.Json(required=True, metadata=_NODES)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)


class WorkflowPageSchema(StrictSchema):
    """A page of workflows, the oldest first."""

    items = fields.Items(fields.Nested(WorkflowSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class NewWorkflowSchema(StrictSchema):
    """A workflow as a whole; start_workflow names it by its name."""

    name = fields.Text(min=1, max=MAX_WORKFLOW_NAME, required=True)
    nodes = fields.Json(required=True, metadata=_NODES)


def _make(call: Call) -> Answer:
    workflow = make_workflow(
        call.conn,
        tenant_id=call.tenant_id,
        name=call.body["name"],
        nodes=call.body["nodes"],
        now=call.now,
    )
    return _answer(workflow, status=201)


def _list(call: Call) -> Answer:
    limit = call.query["limit"]
    found = list_workflows(call.conn, call.tenant_id, after=after_id(call), limit=limit)
    return page(
        call,
        found.items,
        more=found.more,
        position=lambda workflow: (workflow.id,),
        document=_document,
    )


def _get(call: Call) -> Answer:
    return _answer(get_workflow(call.conn, call.tenant_id, call.ids["workflow_id"]))


def _get_version(call: Call) -> Answer:
    workflow_id, version = call.ids["workflow_id"], call.ids["version"]
    workflow = get_version(call.conn, call.tenant_id, workflow_id, version)
    return Answer(body=_document(workflow))


def _replace(call: Call) -> Answer:
    workflow = replace_workflow(
        call.conn,
        tenant_id=call.tenant_id,
        workflow_id=call.ids["workflow_id"],
        name=call.body["name"],
        nodes=call.body["nodes"],
        now=call.now,
        expected_version=call.revision,
    )
    return _answer(workflow)


def _delete(call: Call) -> Answer:
    delete_workflow(call.conn, call.tenant_id, call.ids["workflow_id"], now=call.now)
    return Answer(status=204)


def _answer(workflow: Workflow, *, status: int = 200) -> Answer:
    return Answer(body=_document(workflow), status=status, revision=workflow.version)


def _document(workflow: Workflow) -> dict[str, Any]:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "version": workflow.version,
        "nodes": workflow.nodes,
        "created_at": workflow.created_at,
        "updated_at": workflow.updated_at,
    }


WORKFLOW_ROUTES = (
    Route(
        method="POST",
        path="/workflows",
        operation_id="workflows.make",
        summary="Make a workflow",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewWorkflowSchema,
        answers={201: WorkflowSchema},
        handler=_make,
        creates=True,
    ),
    Route(
        method="GET",
        path="/workflows",
        operation_id="workflows.list",
        summary="List workflows in their newest versions, the oldest first",
        roles=MODERATOR,
        query=TenantPageQuery,
        answers={200: WorkflowPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path=WORKFLOW_PATH,
        operation_id="workflows.get",
        summary="Look at a workflow in its newest version",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: WorkflowSchema},
        handler=_get,
    ),
    Route(
        method="GET",
        path=WORKFLOW_PATH + "/versions/<id:version>",
        operation_id="workflows.getVersion",
        summary="Look at a version of a workflow, such as the one that an execution goes by",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: WorkflowSchema},
        handler=_get_version,
        untagged=True,
    ),
    Route(
        method="PUT",
        path=WORKFLOW_PATH,
        operation_id="workflows.replace",
        summary="Give a workflow its next version; what was started finishes on its own",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewWorkflowSchema,
        answers={200: WorkflowSchema},
        handler=_replace,
        versioned=True,
        conflicts=True,
    ),
    Route(
        method="DELETE",
        path=WORKFLOW_PATH,
        operation_id="workflows.delete",
        summary="Delete a workflow; what was started goes on",
        roles=MODERATOR,
        query=TenantQuery,
        answers={204: None},
        handler=_delete,
    ),
)
