"""Tenants as an operator names and makes them."""

import secrets
from collections.abc import Iterator

from psycopg import Connection

from services.cli.output import shown
from shared.db.clock import server_now
from shared.db.connection import connect
from shared.db.roles import API, require_role
from shared.db.tenant_session import TenantSession
from shared.domain.tenants import Tenant
from shared.errors import AppError, NotFound
from shared.queries.tenants import list_tenants
from shared.settings import Settings
from shared.usecases.tokens import SECRET_BYTES, create_tenant

_APPLICATION = "duebook-cli"
_PAGE = 1000
_TOLD = 10


def api_session(settings: Settings) -> TenantSession:
    """Return a session of the API's role, for what is done without an API.

    Raises Forbidden when the login may not take it, ``psycopg.OperationalError`` when the database
    is not reached.
    """
    url = settings.database_url.reveal()
    require_role(url, API, application_name=_APPLICATION)
    return connect(url, application_name=_APPLICATION, role=API)


def make_tenant(conn: TenantSession, settings: Settings, *, name: str) -> Tenant:
    """Make a tenant and return it; raises Conflict ``tenant_exists`` for a name in use."""
    return create_tenant(
        conn,
        name=name,
        key_secret=secrets.token_bytes(SECRET_BYTES),
        sealer=settings.sealer(),
        now=server_now(conn),
    )


def find_tenant(conn: Connection, name_or_id: str) -> Tenant:
    """Return the tenant of this name or id; raises NotFound ``tenant_not_found``."""
    for tenant in each_tenant(conn):
        if name_or_id in (tenant.name, str(tenant.id)):
            return tenant
    others = f": there is {_named(conn)}" if list_tenants(conn, limit=1) else ""
    raise NotFound(f"there is no tenant '{name_or_id}'{others}", code="tenant_not_found")


def the_only_tenant(conn: Connection) -> Tenant:
    """Return the tenant where there is but one; raises AppError where there is none, or several."""
    found = list_tenants(conn, limit=2)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound("there is no tenant", code="tenant_not_found")
    message = f"there are several tenants, {_named(conn)}: say which with --tenant"
    raise AppError(message, code="tenant_ambiguous")


def _named(conn: Connection) -> str:
    """Return the names of the tenants, of many the first ones."""
    names = [f"'{shown(one.name)}'" for one in list_tenants(conn, limit=_TOLD + 1)]
    return ", ".join(names if len(names) <= _TOLD else [*names[:_TOLD], "…"])


def each_tenant(conn: Connection) -> Iterator[Tenant]:
    """Yield the tenants, the oldest first."""
    after = None
    while page := list_tenants(conn, after=after, limit=_PAGE):
        yield from page
        after = page[-1].created_at, page[-1].id
