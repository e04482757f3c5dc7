"""Tenants, their API tokens and signing keys: make, know, replace, revoke.

Randomness is an argument: 32 bytes each, from whoever is at the edge of the process.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

from psycopg import Connection

from shared.db.tenant_session import TenantSession
from shared.domain.tenants import ApiToken, Role, SigningKey, Tenant
from shared.errors import Unauthenticated
from shared.queries import tenants
from shared.sealing import Sealer
from shared.usecases.tenant_limits import SIGNING_KEYS, TOKENS, check_room

SECRET_BYTES = 32
# While receivers learn a new key, webhooks are signed with the old one as well.
KEY_OVERLAP = timedelta(days=1)

_TOKEN = re.compile(r"dbk_[A-Za-z0-9_-]{43}", re.ASCII)


def create_tenant(
    conn: TenantSession, *, name: str, key_secret: bytes, sealer: Sealer, now: datetime
) -> Tenant:
    """Make a tenant with a first signing key, so that its webhooks are signed from the start.

    Raises Conflict ``tenant_exists`` for a name in use.
    """
    with conn.transaction():
        tenant = tenants.insert_tenant(conn, name=name, now=now)
        conn.bind(tenant.id)
        sealed = sealer.seal(key_secret)
        tenants.insert_signing_key(conn, tenant_id=tenant.id, secret=sealed, now=now)
        conn.bind(None)
    return tenant


def issue_token(
    conn: Connection,
    *,
    tenant_id: UUID,
    name: str,
    role: Role,
    channel_id: UUID | None,
    secret: bytes,
    now: datetime,
) -> tuple[ApiToken, str]:
    """Make a token and return it with its text, ``dbk_…``: the only time that anybody sees it.

    Raises Conflict ``tokens_too_many``, NotFound ``tenant_not_found``.
    """
    text = f"dbk_{urlsafe_b64encode(secret).rstrip(b'=').decode()}"
    with conn.transaction():
        check_room(conn, tenant_id, TOKENS, now=now)
        token = tenants.insert_token(
            conn,
            tenant_id=tenant_id,
            name=name,
            role=role,
            channel_id=channel_id,
            token_hash=_hash(text),
            now=now,
        )
    return token, text


def authenticate(conn: Connection, *, text: str) -> ApiToken:
    """Return the token that has this text; raises Unauthenticated when it is unknown or revoked."""
    if _TOKEN.fullmatch(text):
        token = tenants.find_token(conn, _hash(text))
        if token is not None:
            return token
    raise Unauthenticated("the API token is not known")


def revoke_token(conn: Connection, *, tenant_id: UUID, token_id: UUID, now: datetime) -> None:
    """Make a token void; once more is no error. Raises NotFound ``token_not_found``."""
    tenants.revoke_token(conn, tenant_id=tenant_id, token_id=token_id, now=now)


def replace_signing_key(
    conn: Connection, *, tenant_id: UUID, secret: bytes, sealer: Sealer, now: datetime
) -> tuple[SigningKey, str]:
    """Make a key and return it with its secret, ``whsec_…``: the only time that anybody sees it.

    The keys before it go on signing for a day. Raises Conflict ``signing_keys_too_many``, NotFound
    ``tenant_not_found``.
    """
    with conn.transaction():
        # Locks the tenant: of two at once, neither would end the other's key.
        check_room(conn, tenant_id, SIGNING_KEYS, now=now)
        tenants.expire_signing_keys(conn, tenant_id=tenant_id, at=now + KEY_OVERLAP)
        sealed = sealer.seal(secret)
        key = tenants.insert_signing_key(conn, tenant_id=tenant_id, secret=sealed, now=now)
    return key, f"whsec_{b64encode(secret).decode()}"


def _hash(text: str) -> bytes:
    return sha256(text.encode()).digest()
