"""Keys that sign webhooks: make a new one (shown once) beside the old ones, list."""

import secrets
from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_uuid, created_position, page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.tenants import SigningKey
from shared.queries.tenants import list_signing_keys
from shared.usecases.tokens import SECRET_BYTES, replace_signing_key


class SigningKeySchema(StrictSchema):
    """A signing key, without its secret."""

    id = fields.Uuid(required=True)
    created_at = fields.Instant(required=True)
    expires_at = fields.Instant(required=True, allow_none=True)


class NewSigningKeySchema(SigningKeySchema):
    """A key with its secret, which is shown once: null when the answer is given again."""

    secret = fields.Text(max=100, required=True, allow_none=True)


class SigningKeyPageSchema(StrictSchema):
    """A page of signing keys, the oldest first."""

    items = fields.Items(fields.Nested(SigningKeySchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


def _create(call: Call) -> Answer:
    key, text = replace_signing_key(
        call.conn,
        tenant_id=call.tenant_id,
        secret=secrets.token_bytes(SECRET_BYTES),
        sealer=call.sealer,
        now=call.now,
    )
    return Answer(body={**_document(key), "secret": text}, status=201, secrets=("secret",))


def _list(call: Call) -> Answer:
    found = list_signing_keys(
        call.conn, call.tenant_id, after=after_uuid(call), limit=page_size(call)
    )
    return page(
        call,
        found,
        position=lambda key: created_position(key.created_at, key.id),
        document=_document,
    )


def _document(key: SigningKey) -> dict[str, Any]:
    return {"id": key.id, "created_at": key.created_at, "expires_at": key.expires_at}


SIGNING_KEY_ROUTES = (
    Route(
        method="POST",
        path="/signing-keys",
        operation_id="signingKeys.create",
        summary="Make a signing key, shown once; the keys before it go on signing for a day",
        roles=MODERATOR,
        query=TenantQuery,
        answers={201: NewSigningKeySchema},
        handler=_create,
        creates=True,
    ),
    Route(
        method="GET",
        path="/signing-keys",
        operation_id="signingKeys.list",
        summary="List signing keys, the oldest first",
        roles=MODERATOR,
        query=TenantPageQuery,
        answers={200: SigningKeyPageSchema},
        handler=_list,
    ),
)
