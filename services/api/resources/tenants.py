"""Tenants: the operator makes and lists them."""

import secrets
from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_uuid, created_position, page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import PageQuery
from shared.domain.tenants import MAX_NAME, Tenant
from shared.queries.tenants import list_tenants
from shared.usecases.tokens import SECRET_BYTES, create_tenant


class TenantSchema(StrictSchema):
    """A tenant."""

    id = fields.Uuid(required=True)
    name = fields.Text(min=1, max=MAX_NAME, required=True)
    created_at = fields.Instant(required=True)


class TenantPageSchema(StrictSchema):
    """A page of tenants, the oldest first."""

    items = fields.Items(fields.Nested(TenantSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class NewTenantSchema(StrictSchema):
    """A tenant to make; its name is used once."""

    name = fields.Text(min=1, max=MAX_NAME, required=True)


def _create(call: Call) -> Answer:
    tenant = create_tenant(
        call.conn,
        name=call.body["name"],
        key_secret=secrets.token_bytes(SECRET_BYTES),
        sealer=call.sealer,
        now=call.now,
    )
    return Answer(body=_document(tenant), status=201)


def _list(call: Call) -> Answer:
    return page(
        call,
        list_tenants(call.conn, after=after_uuid(call), limit=page_size(call)),
        position=lambda tenant: created_position(tenant.created_at, tenant.id),
        document=_document,
    )


def _document(tenant: Tenant) -> dict[str, Any]:
    return {"id": tenant.id, "name": tenant.name, "created_at": tenant.created_at}


TENANT_ROUTES = (
    Route(
        method="POST",
        path="/tenants",
        operation_id="tenants.create",
        summary="Make a tenant",
        roles=MODERATOR,
        body=NewTenantSchema,
        answers={201: TenantSchema},
        handler=_create,
        creates=True,
    ),
    Route(
        method="GET",
        path="/tenants",
        operation_id="tenants.list",
        summary="List tenants, the oldest first",
        roles=MODERATOR,
        query=PageQuery,
        answers={200: TenantPageSchema},
        handler=_list,
    ),
)
