"""Tracking links: make one, see whether it was clicked. Following one is no part of this."""

import secrets
from typing import Any

from services.api import fields
from services.api.fields import StrictSchema
from services.api.pages import after_id, page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.actions.urls import MAX_URL
from shared.domain.tenants import Role
from shared.domain.tracking import MAX_LINK_NAME, TOKEN_BYTES, TrackingLink, link_url
from shared.queries.tracking import list_links
from shared.usecases.tracking_links import get_link, make_link

_ROLES: frozenset[Role] = frozenset({"moderator", "service"})


class NewTrackingLinkSchema(StrictSchema):
    """What a link leads to, whom it is for, and what people call it."""

    target_url = fields.Text(
        min=1,
        max=MAX_URL,
        required=True,
        metadata={"description": "http or https, printable ASCII, no user part"},
    )
    line_user_id = fields.Integer(min=1, load_default=None, allow_none=True)
    name = fields.Text(min=1, max=MAX_LINK_NAME, load_default=None, allow_none=True)


class TrackingLinkSchema(StrictSchema):
    """A link; ``url`` is what people click. That of a workflow's wait names its execution."""

    id = fields.Integer(required=True)
    token = fields.Text(max=32, required=True)
    url = fields.Text(max=4096, required=True)
    target_url = fields.Text(max=MAX_URL, required=True)
    line_user_id = fields.Integer(required=True, allow_none=True)
    name = fields.Text(max=MAX_LINK_NAME, required=True, allow_none=True)
    execution_id = fields.Uuid(required=True, allow_none=True)
    workflow_node_path = fields.Text(max=200, required=True, allow_none=True)
    clicks = fields.Integer(required=True)
    first_clicked_at = fields.Instant(required=True, allow_none=True)
    created_at = fields.Instant(required=True)


class TrackingLinkPageSchema(StrictSchema):
    """A page of links, the newest first."""

    items = fields.Items(fields.Nested(TrackingLinkSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


def _create(call: Call) -> Answer:
    link = make_link(
        call.conn,
        tenant_id=call.tenant_id,
        secret=secrets.token_bytes(TOKEN_BYTES),
        target_url=call.body["target_url"],
        line_user_id=call.body["line_user_id"],
        name=call.body["name"],
        now=call.now,
    )
    return Answer(body=_document(link, call.public_url), status=201)


def _get(call: Call) -> Answer:
    link = get_link(call.conn, tenant_id=call.tenant_id, link_id=call.ids["link_id"])
    return Answer(body=_document(link, call.public_url))


def _list(call: Call) -> Answer:
    found = list_links(
        call.conn, tenant_id=call.tenant_id, before=after_id(call), limit=page_size(call)
    )
    return page(
        call,
        found,
        position=lambda link: (link.id,),
        document=lambda link: _document(link, call.public_url),
    )


def _document(link: TrackingLink, public_url: str) -> dict[str, Any]:
    return {
        "id": link.id,
        "token": link.token,
        "url": link_url(public_url, link.token),
        "target_url": link.target_url,
        "line_user_id": link.line_user_id,
        "name": link.name,
        "execution_id": link.execution_id,
        "workflow_node_path": link.workflow_node_path,
        "clicks": link.clicks,
        "first_clicked_at": link.first_clicked_at,
        "created_at": link.created_at,
    }


TRACKING_LINK_ROUTES = (
    Route(
        method="POST",
        path="/tracking-links",
        operation_id="trackingLinks.create",
        summary="Make a tracking link",
        roles=_ROLES,
        query=TenantQuery,
        body=NewTrackingLinkSchema,
        answers={201: TrackingLinkSchema},
        handler=_create,
        creates=True,
    ),
    Route(
        method="GET",
        path="/tracking-links",
        operation_id="trackingLinks.list",
        summary="List tracking links, the newest first",
        roles=_ROLES,
        query=TenantPageQuery,
        answers={200: TrackingLinkPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path="/tracking-links/<id:link_id>",
        operation_id="trackingLinks.get",
        summary="Get a tracking link and its clicks",
        roles=_ROLES,
        query=TenantQuery,
        answers={200: TrackingLinkSchema},
        handler=_get,
    ),
)
