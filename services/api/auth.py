"""Who calls, and what they may: the admin token, API tokens, roles and scopes."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal
from uuid import UUID

from psycopg import Connection
from werkzeug.datastructures import Headers

from services.api.request_limits import ADMIN_TOKEN_INVALID
from shared.domain.tenants import Role
from shared.errors import Fault, Forbidden, InvalidInput, Unauthenticated
from shared.queries.tenants import get_tenant
from shared.settings import Secret
from shared.usecases.tokens import authenticate

Scope = Literal["root", "tenant", "channel", "v1", "public"]

MODERATOR: frozenset[Role] = frozenset({"moderator"})
READERS: frozenset[Role] = frozenset({"moderator", "editor", "viewer"})
RECORD_READERS: frozenset[Role] = frozenset({"moderator", "editor", "viewer", "service"})
RECORD_WRITERS: frozenset[Role] = frozenset({"moderator", "editor", "service"})
MESSAGE_READERS: frozenset[Role] = frozenset({"moderator", "service"})
INTERNAL_CALLERS: frozenset[Role] = frozenset({"moderator", "service"})

TENANT_MISSING = Fault(
    code="field_missing", pointer="/tenant", message="tenant is missing: the admin names it"
)

_ADMIN_HEADER = "X-ADMIN-TOKEN"
_WRONG_ADMIN_TOKEN = "BaseRoot access denied: Invalid X-ADMIN-TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls; the admin is a moderator of the tenant that the request names, or of none.

    ``token_id`` is the API token, None for the admin. ``chatroom_id`` is the chatroom that a call
    of a channel acts for, None where it says none.
    """

    role: Role
    tenant_id: UUID | None
    channel_id: UUID | None = None
    chatroom_id: UUID | None = None
    token_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the headers prove: the admin, or a token that the database has yet to know."""

    token: str | None
    is_admin: bool


def read_credentials(headers: Headers, *, scope: Scope, admin_token: Secret) -> Credentials:
    """Return the credentials that a scope asks for, without looking into the database.

    Raises Forbidden on a root route without the right admin token, elsewhere Unauthenticated.
    """
    if scope == "root":
        if not _is_admin(headers, admin_token):
            raise Forbidden(_WRONG_ADMIN_TOKEN, code=ADMIN_TOKEN_INVALID)
        return Credentials(token=None, is_admin=True)
    if scope == "v1" and "Authorization" not in headers and _ADMIN_HEADER in headers:
        if not _is_admin(headers, admin_token):
            raise Unauthenticated("the admin token is not right")
        return Credentials(token=None, is_admin=True)
    kind, _, token = headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer":
        raise Unauthenticated("an API token is needed: Authorization: Bearer <token>")
    return Credentials(token=token.strip(" "), is_admin=False)


def identify(
    conn: Connection, credentials: Credentials, *, scope: Scope, tenant_id: UUID | None
) -> Caller:
    """Return the caller; ``tenant_id`` is the tenant that an admin's request names.

    Raises Unauthenticated for a token that is unknown or revoked, Forbidden when the token does
    not belong into the scope; for an admin NotFound when there is no such tenant, InvalidInput when
    the scope needs one.
    """
    if credentials.is_admin:
        if tenant_id is not None:
            get_tenant(conn, tenant_id)
        elif scope != "root":
            raise InvalidInput.of([TENANT_MISSING])
        return Caller(role="moderator", tenant_id=tenant_id)
    if tenant_id is not None:
        raise Forbidden("only the admin may name a tenant", code="tenant_forbidden")
    token = authenticate(conn, text=credentials.token or "")
    if scope == "channel" and token.channel_id is None:
        raise Forbidden("this scope needs a token of a channel", code="channel_token_needed")
    if scope != "channel" and token.channel_id is not None:
        raise Forbidden(
            "a token of a channel is good for /channel alone", code="channel_token_forbidden"
        )
    return Caller(
        role=token.role,
        tenant_id=token.tenant_id,
        channel_id=token.channel_id,
        token_id=token.id,
    )


def check_role(caller: Caller, roles: frozenset[Role]) -> None:
    """Raise Forbidden ``role_missing`` unless the caller has one of the roles."""
    if caller.role not in roles:
        needed = " or ".join(sorted(roles))
        raise Forbidden(f"this needs a token of role {needed}", code="role_missing")


def _is_admin(headers: Headers, admin_token: Secret) -> bool:
    # WSGI hands header bytes over as latin-1. Hashed, so that even lengths compare in one time.
    given = headers.get(_ADMIN_HEADER, "").encode("latin-1", "replace")
    expected = admin_token.reveal().encode()
    return hmac.compare_digest(sha256(given).digest(), sha256(expected).digest())
