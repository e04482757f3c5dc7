"""Secrets that headers of calls name: set, list, delete. No answer has a value."""

from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.secrets import MAX_SECRET, TenantSecret
from shared.queries.secrets import list_secrets
from shared.usecases.manage_secrets import delete_secret, set_secret

_SECRET = "/secrets/<secret:secret_name>"
_VALUE = {
    "writeOnly": True,
    "description": "Printable ASCII that neither begins nor ends with a blank.",
    "pattern": "^[!-~]([ -~]*[!-~])?$",
}


class SecretSchema(StrictSchema):
    """A secret, without its value."""

    name = fields.Text(min=1, max=100, required=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)


class SecretPageSchema(StrictSchema):
    """A page of secrets, by name."""

    items = fields.Items(fields.Nested(SecretSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class NewSecretSchema(StrictSchema):
    """The value of a secret, which no answer tells."""

    value = fields.Text(min=1, max=MAX_SECRET, required=True, metadata=_VALUE)


def _set(call: Call) -> Answer:
    secret, is_new = set_secret(
        call.conn,
        tenant_id=call.tenant_id,
        name=call.ids["secret_name"],
        value=call.body["value"],
        sealer=call.sealer,
        now=call.now,
    )
    return Answer(body=_document(secret), status=201 if is_new else 200)


def _list(call: Call) -> Answer:
    after = None if call.position is None else str(call.position[0])
    return page(
        call,
        list_secrets(call.conn, call.tenant_id, after=after, limit=page_size(call)),
        position=lambda secret: (secret.name,),
        document=_document,
    )


def _delete(call: Call) -> Answer:
    delete_secret(call.conn, tenant_id=call.tenant_id, name=call.ids["secret_name"])
    return Answer(status=204)


def _document(secret: TenantSecret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "created_at": secret.created_at,
        "updated_at": secret.updated_at,
    }


SECRET_ROUTES = (
    Route(
        method="PUT",
        path=_SECRET,
        operation_id="secrets.set",
        summary="Set a secret; calls from now on have the new value",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewSecretSchema,
        answers={200: SecretSchema, 201: SecretSchema},
        handler=_set,
        conflicts=True,
    ),
    Route(
        method="GET",
        path="/secrets",
        operation_id="secrets.list",
        summary="List secrets by name, without their values",
        roles=MODERATOR,
        query=TenantPageQuery,
        answers={200: SecretPageSchema},
        handler=_list,
    ),
    Route(
        method="DELETE",
        path=_SECRET,
        operation_id="secrets.delete",
        summary="Delete a secret that no trigger, rule or workflow names",
        roles=MODERATOR,
        query=TenantQuery,
        answers={204: None},
        handler=_delete,
        conflicts=True,
    ),
)
