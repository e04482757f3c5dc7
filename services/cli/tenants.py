"""Tenants as an operator names them."""

from collections.abc import Iterator

from psycopg import Connection

from shared.domain.tenants import Tenant
from shared.errors import AppError, NotFound
from shared.queries.tenants import list_tenants

_PAGE = 1000


def find_tenant(conn: Connection, name_or_id: str) -> Tenant:
    """Return the tenant of this name or id; raises NotFound ``tenant_not_found``."""
    for tenant in _tenants(conn):
        if name_or_id in (tenant.name, str(tenant.id)):
            return tenant
    raise NotFound(f"there is no tenant '{name_or_id}'", code="tenant_not_found")


def the_only_tenant(conn: Connection) -> Tenant:
    """Return the tenant where there is but one; raises AppError where there is none, or several."""
    found = list_tenants(conn, limit=2)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound("there is no tenant", code="tenant_not_found")
    raise AppError("there are several tenants: say which with --tenant", code="tenant_ambiguous")


def _tenants(conn: Connection) -> Iterator[Tenant]:
    after = None
    while page := list_tenants(conn, after=after, limit=_PAGE):
        yield from page
        after = page[-1].created_at, page[-1].id
