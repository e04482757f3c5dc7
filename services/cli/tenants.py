"""Tenants as an operator names them."""

from collections.abc import Iterator

from psycopg import Connection

from services.cli.output import shown
from shared.domain.tenants import Tenant
from shared.errors import AppError, NotFound
from shared.queries.tenants import list_tenants

_PAGE = 1000
_TOLD = 10


def find_tenant(conn: Connection, name_or_id: str) -> Tenant:
    """Return the tenant of this name or id; raises NotFound ``tenant_not_found``."""
    for tenant in _tenants(conn):
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


def _tenants(conn: Connection) -> Iterator[Tenant]:
    after = None
    while page := list_tenants(conn, after=after, limit=_PAGE):
        yield from page
        after = page[-1].created_at, page[-1].id
