"""Tenants, their API tokens and their signing keys."""

from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.tenants import ApiToken, Role, SigningKey, Tenant
from shared.errors import Conflict, NotFound
from shared.sealing import Sealed

_INSERT_TENANT = """
INSERT INTO tenant (name, created_at)
VALUES (%(name)s, %(now)s)
ON CONFLICT (name) DO NOTHING
RETURNING id, name, created_at
"""


def insert_tenant(conn: Connection, *, name: str, now: datetime) -> Tenant:
    """Insert a tenant and return it; raises Conflict ``tenant_exists`` for a name in use."""
    found = _tenants(conn, _INSERT_TENANT, {"name": name, "now": now})
    if not found:
        raise Conflict("a tenant has this name already", code="tenant_exists")
    return found[0]


_GET_TENANT = "SELECT id, name, created_at FROM tenant WHERE id = %(tenant_id)s"


def get_tenant(conn: Connection, tenant_id: UUID) -> Tenant:
    """Return a tenant; raises NotFound ``tenant_not_found``."""
    return _one_tenant(conn, _GET_TENANT, tenant_id)


_LOCK_TENANT = _GET_TENANT + " FOR NO KEY UPDATE"


def lock_tenant(conn: Connection, tenant_id: UUID) -> Tenant:
    """Return a tenant as ``get_tenant`` does; until the transaction ends nobody else locks it."""
    return _one_tenant(conn, _LOCK_TENANT, tenant_id)


_SHARE_TENANT = _GET_TENANT + " FOR SHARE"


def share_tenant(conn: Connection, tenant_id: UUID) -> Tenant:
    """Return a tenant as ``get_tenant`` does; nobody ``lock_tenant``s it before the end of this."""
    return _one_tenant(conn, _SHARE_TENANT, tenant_id)


def _one_tenant(conn: Connection, statement: LiteralString, tenant_id: UUID) -> Tenant:
    found = _tenants(conn, statement, {"tenant_id": tenant_id})
    if not found:
        raise NotFound(f"tenant {tenant_id} does not exist", code="tenant_not_found")
    return found[0]


_LIST_TENANTS = """
SELECT id, name, created_at
FROM tenant
WHERE (created_at, id) > (%(after_created_at)s, %(after_id)s)
ORDER BY created_at, id
LIMIT %(limit)s
"""

# Before the first row of any list by (created_at, id).
_START = (datetime.fromisoformat("0001-01-01T00:00:00+00:00"), UUID(int=0))


def list_tenants(
    conn: Connection, *, after: tuple[datetime, UUID] | None = None, limit: int
) -> list[Tenant]:
    """Return a page of tenants by (created_at, id), behind ``after``."""
    return _tenants(conn, _LIST_TENANTS, _page(after, limit))


def _tenants(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[Tenant]:
    with conn.cursor(row_factory=class_row(Tenant)) as cursor:
        return cursor.execute(statement, parameters).fetchall()


def _page(after: tuple[datetime, UUID] | None, limit: int) -> dict[str, Any]:
    created_at, id = after or _START
    return {"after_created_at": created_at, "after_id": id, "limit": limit}


_INSERT_TOKEN = """
INSERT INTO api_token (tenant_id, name, role, channel_id, token_hash, created_at)
VALUES (%(tenant_id)s, %(name)s, %(role)s, %(channel_id)s, %(token_hash)s, %(now)s)
RETURNING id, tenant_id, name, role, channel_id, created_at, revoked_at
"""


def insert_token(
    conn: Connection,
    *,
    tenant_id: UUID,
    name: str,
    role: Role,
    channel_id: UUID | None,
    token_hash: bytes,
    now: datetime,
) -> ApiToken:
    """Insert a token, known by its hash alone, and return what is told of it."""
    parameters = {
        "tenant_id": tenant_id,
        "name": name,
        "role": role,
        "channel_id": channel_id,
        "token_hash": token_hash,
        "now": now,
    }
    return _tokens(conn, _INSERT_TOKEN, parameters)[0]


_FIND_TOKEN = """
SELECT id, tenant_id, name, role, channel_id, created_at, revoked_at
FROM api_token
WHERE token_hash = %(token_hash)s AND revoked_at IS NULL
"""


def find_token(conn: Connection, token_hash: bytes) -> ApiToken | None:
    """Return the token of this sha256, None when it is unknown or revoked."""
    found = _tokens(conn, _FIND_TOKEN, {"token_hash": token_hash})
    return found[0] if found else None


_LIST_TOKENS = """
SELECT id, tenant_id, name, role, channel_id, created_at, revoked_at
FROM api_token
WHERE tenant_id = %(tenant_id)s AND (created_at, id) > (%(after_created_at)s, %(after_id)s)
ORDER BY created_at, id
LIMIT %(limit)s
"""


def list_tokens(
    conn: Connection, tenant_id: UUID, *, after: tuple[datetime, UUID] | None = None, limit: int
) -> list[ApiToken]:
    """Return a page of a tenant's tokens, revoked ones too, by (created_at, id)."""
    return _tokens(conn, _LIST_TOKENS, {"tenant_id": tenant_id, **_page(after, limit)})


_REVOKE_TOKEN = """
UPDATE api_token
SET revoked_at = coalesce(revoked_at, %(now)s)
WHERE tenant_id = %(tenant_id)s AND id = %(token_id)s
"""


def revoke_token(conn: Connection, *, tenant_id: UUID, token_id: UUID, now: datetime) -> None:
    """Make a token void from now on; raises NotFound ``token_not_found``."""
    parameters = {"tenant_id": tenant_id, "token_id": token_id, "now": now}
    if conn.execute(_REVOKE_TOKEN, parameters).rowcount == 0:
        raise NotFound(f"token {token_id} does not exist", code="token_not_found")


def _tokens(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[ApiToken]:
    with conn.cursor(row_factory=class_row(ApiToken)) as cursor:
        return cursor.execute(statement, parameters).fetchall()


_INSERT_SIGNING_KEY = """
INSERT INTO signing_key (tenant_id, secret, sealed_with, created_at)
VALUES (%(tenant_id)s, %(secret)s, %(sealed_with)s, %(now)s)
RETURNING id, tenant_id, created_at, expires_at
"""


def insert_signing_key(
    conn: Connection, *, tenant_id: UUID, secret: Sealed, now: datetime
) -> SigningKey:
    """Insert a key that signs from now on, beside those that are still valid; return it."""
    parameters = {
        "tenant_id": tenant_id,
        "secret": secret.content,
        "sealed_with": secret.sealed_with,
        "now": now,
    }
    return _signing_keys(conn, _INSERT_SIGNING_KEY, parameters)[0]


_EXPIRE_SIGNING_KEYS = """
UPDATE signing_key
SET expires_at = %(at)s
WHERE tenant_id = %(tenant_id)s AND (expires_at IS NULL OR expires_at > %(at)s)
"""


def expire_signing_keys(conn: Connection, *, tenant_id: UUID, at: datetime) -> None:
    """Let every key of the tenant end at the latest ``at``."""
    conn.execute(_EXPIRE_SIGNING_KEYS, {"tenant_id": tenant_id, "at": at})


_LIST_SIGNING_KEYS = """
SELECT id, tenant_id, created_at, expires_at
FROM signing_key
WHERE tenant_id = %(tenant_id)s AND (created_at, id) > (%(after_created_at)s, %(after_id)s)
ORDER BY created_at, id
LIMIT %(limit)s
"""


def list_signing_keys(
    conn: Connection, tenant_id: UUID, *, after: tuple[datetime, UUID] | None = None, limit: int
) -> list[SigningKey]:
    """Return a page of a tenant's keys, expired ones too, by (created_at, id); no secrets."""
    return _signing_keys(conn, _LIST_SIGNING_KEYS, {"tenant_id": tenant_id, **_page(after, limit)})


def _signing_keys(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[SigningKey]:
    with conn.cursor(row_factory=class_row(SigningKey)) as cursor:
        return cursor.execute(statement, parameters).fetchall()


_LIST_SIGNING_SECRETS = """
SELECT secret, sealed_with
FROM signing_key
WHERE tenant_id = %(tenant_id)s AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY created_at DESC, id DESC
"""


def list_signing_secrets(conn: Connection, tenant_id: UUID, *, now: datetime) -> list[Sealed]:
    """Return the secrets with which a webhook is signed now, the newest first."""
    parameters = {"tenant_id": tenant_id, "now": now}
    return [
        Sealed(content=bytes(secret), sealed_with=sealed_with)
        for secret, sealed_with in conn.execute(_LIST_SIGNING_SECRETS, parameters)
    ]
