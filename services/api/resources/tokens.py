"""API tokens of a tenant: issue (shown once), list, revoke."""

import secrets
from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_uuid, created_position, page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.tenants import MAX_NAME, ROLES, ApiToken
from shared.queries.tenants import list_tokens
from shared.usecases.tokens import SECRET_BYTES, issue_token, revoke_token


class TokenSchema(StrictSchema):
    """A token, without its text."""

    id = fields.Uuid(required=True)
    name = fields.Text(min=1, max=MAX_NAME, required=True)
    role = fields.Choice(*ROLES, required=True)
    channel_id = fields.Uuid(required=True, allow_none=True)
    created_at = fields.Instant(required=True)
    revoked_at = fields.Instant(required=True, allow_none=True)


class IssuedTokenSchema(TokenSchema):
    """A token with its text, which is shown once: null when the answer is given again."""

    token = fields.Text(max=100, required=True, allow_none=True)


class TokenPageSchema(StrictSchema):
    """A page of tokens, the oldest first."""

    items = fields.Items(fields.Nested(TokenSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class NewTokenSchema(StrictSchema):
    """A token to issue; with a channel it is good for /channel alone."""

    name = fields.Text(min=1, max=MAX_NAME, required=True)
    role = fields.Choice(*ROLES, required=True)
    channel_id = fields.Uuid(allow_none=True, load_default=None)


def _issue(call: Call) -> Answer:
    token, text = issue_token(
        call.conn,
        tenant_id=call.tenant_id,
        name=call.body["name"],
        role=call.body["role"],
        channel_id=call.body["channel_id"],
        secret=secrets.token_bytes(SECRET_BYTES),
        now=call.now,
    )
    return Answer(body={**_document(token), "token": text}, status=201, secrets=("token",))


def _list(call: Call) -> Answer:
    found = list_tokens(call.conn, call.tenant_id, after=after_uuid(call), limit=page_size(call))
    return page(
        call,
        found,
        position=lambda token: created_position(token.created_at, token.id),
        document=_document,
    )


def _revoke(call: Call) -> Answer:
    revoke_token(call.conn, tenant_id=call.tenant_id, token_id=call.ids["token_id"], now=call.now)
    return Answer(status=204)


def _document(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "channel_id": token.channel_id,
        "created_at": token.created_at,
        "revoked_at": token.revoked_at,
    }


TOKEN_ROUTES = (
    Route(
        method="POST",
        path="/tokens",
        operation_id="tokens.issue",
        summary="Issue an API token; its text is shown once",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewTokenSchema,
        answers={201: IssuedTokenSchema},
        handler=_issue,
        creates=True,
    ),
    Route(
        method="GET",
        path="/tokens",
        operation_id="tokens.list",
        summary="List API tokens, the oldest first",
        roles=MODERATOR,
        query=TenantPageQuery,
        answers={200: TokenPageSchema},
        handler=_list,
    ),
    Route(
        method="DELETE",
        path="/tokens/<uuid:token_id>",
        operation_id="tokens.revoke",
        summary="Revoke an API token",
        roles=MODERATOR,
        query=TenantQuery,
        answers={204: None},
        handler=_revoke,
    ),
)
