"""Contacts: register, list, look at, alter, delete."""

from typing import Any

from services.api import fields
from services.api.auth import INTERNAL_CALLERS
from services.api.fields import StrictSchema
from services.api.pages import after_id, page
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.line_users import MAX_DISPLAY_NAME, MAX_EXTERNAL_ID, LineUser
from shared.queries.line_users import delete_line_user, get_line_user, list_line_users
from shared.usecases.manage_line_users import (
    LineUserChange,
    alter_line_user,
    register_line_user,
)

_LINE_USER = "/line-users/<id:line_user_id>"
_EXTERNAL_ID = {
    "description": "what your own systems call the contact; one contact at a time has it",
    "examples": ["crm-1027"],
}
_ATTRIBUTES = {
    "description": "conditions and tokens read them as line_user.<name>; null is no attribute",
    "examples": [{"plan": "pro", "visits": 3, "tags": ["vip"]}],
}


class LineUserSchema(StrictSchema):
    """A contact."""

    id = fields.Integer(required=True)
    external_id = fields.Text(min=1, max=MAX_EXTERNAL_ID, required=True)
    display_name = fields.Text(max=MAX_DISPLAY_NAME, required=True, allow_none=True)
    attributes = fields.Members(required=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)


class LineUserPageSchema(StrictSchema):
    """A page of contacts, the oldest first."""

    items = fields.Items(fields.Nested(LineUserSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class LineUserListQuery(TenantPageQuery):
    """Which contacts."""

    external_id = fields.Text(min=1, max=MAX_EXTERNAL_ID, metadata=_EXTERNAL_ID)


class NewLineUserSchema(StrictSchema):
    """A contact to register."""

    external_id = fields.Text(min=1, max=MAX_EXTERNAL_ID, required=True, metadata=_EXTERNAL_ID)
    display_name = fields.Text(max=MAX_DISPLAY_NAME, allow_none=True, load_default=None)
    attributes = fields.Members(load_default=dict, metadata=_ATTRIBUTES)


class LineUserChangeSchema(StrictSchema):
    """What changes; attributes that are not named stay, null takes one away."""

    external_id = fields.Text(min=1, max=MAX_EXTERNAL_ID)
    display_name = fields.Text(max=MAX_DISPLAY_NAME, allow_none=True)
    attributes = fields.Members(metadata=_ATTRIBUTES)


def _register(call: Call) -> Answer:
    line_user = register_line_user(
        call.conn,
        tenant_id=call.tenant_id,
        external_id=call.body["external_id"],
        display_name=call.body["display_name"],
        attributes=call.body["attributes"],
        now=call.now,
    )
    return Answer(body=_document(line_user), status=201)


def _list(call: Call) -> Answer:
    found = list_line_users(
        call.conn,
        call.tenant_id,
        external_id=call.query.get("external_id"),
        after=after_id(call),
        limit=call.query["limit"],
    )
    return page(
        call,
        found.items,
        more=found.more,
        position=lambda line_user: (line_user.id,),
        document=_document,
    )


def _get(call: Call) -> Answer:
    line_user = get_line_user(call.conn, call.tenant_id, call.ids["line_user_id"])
    return Answer(body=_document(line_user))


def _alter(call: Call) -> Answer:
    line_user = alter_line_user(
        call.conn,
        tenant_id=call.tenant_id,
        line_user_id=call.ids["line_user_id"],
        change=LineUserChange(
            external_id=call.body.get("external_id"),
            has_display_name="display_name" in call.body,
            display_name=call.body.get("display_name"),
            attributes=call.body.get("attributes", {}),
        ),
        now=call.now,
    )
    return Answer(body=_document(line_user))


def _delete(call: Call) -> Answer:
    delete_line_user(call.conn, call.tenant_id, call.ids["line_user_id"], now=call.now)
    return Answer(status=204)


def _document(line_user: LineUser) -> dict[str, Any]:
    return {
        "id": line_user.id,
        "external_id": line_user.external_id,
        "display_name": line_user.display_name,
        "attributes": line_user.attributes,
        "created_at": line_user.created_at,
        "updated_at": line_user.updated_at,
    }


LINE_USER_ROUTES = (
    Route(
        method="POST",
        path="/line-users",
        operation_id="lineUsers.register",
        summary="Register a contact",
        roles=INTERNAL_CALLERS,
        query=TenantQuery,
        body=NewLineUserSchema,
        answers={201: LineUserSchema},
        handler=_register,
        creates=True,
    ),
    Route(
        method="GET",
        path="/line-users",
        operation_id="lineUsers.list",
        summary="List contacts, the oldest first, or find one by its external id",
        roles=INTERNAL_CALLERS,
        query=LineUserListQuery,
        answers={200: LineUserPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path=_LINE_USER,
        operation_id="lineUsers.get",
        summary="Look at a contact",
        roles=INTERNAL_CALLERS,
        query=TenantQuery,
        answers={200: LineUserSchema},
        handler=_get,
    ),
    Route(
        method="PATCH",
        path=_LINE_USER,
        operation_id="lineUsers.alter",
        summary="Alter a contact; what comes due later sees it as it is then",
        roles=INTERNAL_CALLERS,
        query=TenantQuery,
        body=LineUserChangeSchema,
        answers={200: LineUserSchema},
        handler=_alter,
        conflicts=True,
    ),
    Route(
        method="DELETE",
        path=_LINE_USER,
        operation_id="lineUsers.delete",
        summary="Delete a contact; what was scheduled for it is cancelled when it comes due",
        roles=INTERNAL_CALLERS,
        query=TenantQuery,
        answers={204: None},
        handler=_delete,
    ),
)
