"""Secrets of a tenant, by name. Only the worker's role may read values."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.secrets import TenantSecret
from shared.errors import NotFound
from shared.sealing import Sealed

_SELECT = """
SELECT id, tenant_id, name, created_at, updated_at
FROM secret
WHERE tenant_id = %(tenant_id)s
"""
_BY_NAME = _SELECT + "    AND name = %(name)s\n"


def find_secret(conn: Connection, tenant_id: UUID, name: str) -> TenantSecret | None:
    """Return the tenant's secret of this name without its value, None when there is none."""
    found = _secrets(conn, _BY_NAME, {"tenant_id": tenant_id, "name": name})
    return found[0] if found else None


_LIST = _SELECT + "    AND name > %(after)s\nORDER BY name\nLIMIT %(limit)s\n"


def list_secrets(
    conn: Connection, tenant_id: UUID, *, after: str | None = None, limit: int
) -> list[TenantSecret]:
    """Return a page of the tenant's secrets by name, behind ``after``; no values."""
    parameters = {"tenant_id": tenant_id, "after": after or "", "limit": limit}
    return _secrets(conn, _LIST, parameters)


_INSERT = """
INSERT INTO secret (tenant_id, name, value, sealed_with, created_at, updated_at)
VALUES (%(tenant_id)s, %(name)s, %(value)s, %(sealed_with)s, %(now)s, %(now)s)
RETURNING id, tenant_id, name, created_at, updated_at
"""


def insert_secret(
    conn: Connection, *, tenant_id: UUID, name: str, value: Sealed, now: datetime
) -> TenantSecret:
    """Insert a secret of a new name and return what may be told of it."""
    return _secrets(conn, _INSERT, _parameters(tenant_id, name, value, now))[0]


_REPLACE = """
UPDATE secret
SET value = %(value)s, sealed_with = %(sealed_with)s, updated_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND name = %(name)s
RETURNING id, tenant_id, name, created_at, updated_at
"""


def replace_secret(
    conn: Connection, *, tenant_id: UUID, name: str, value: Sealed, now: datetime
) -> TenantSecret | None:
    """Give a secret another value and return it; None when there is none of this name."""
    found = _secrets(conn, _REPLACE, _parameters(tenant_id, name, value, now))
    return found[0] if found else None


_DELETE = "DELETE FROM secret WHERE tenant_id = %(tenant_id)s AND name = %(name)s"


def delete_secret(conn: Connection, tenant_id: UUID, name: str) -> None:
    """Delete a secret; raises NotFound ``secret_not_found``."""
    if conn.execute(_DELETE, {"tenant_id": tenant_id, "name": name}).rowcount == 0:
        raise NotFound("the tenant has no secret of this name", code="secret_not_found")


_VALUES = """
SELECT name, value, sealed_with
FROM secret
WHERE tenant_id = %(tenant_id)s AND name = ANY(%(names)s)
"""


def secret_values(conn: Connection, tenant_id: UUID, names: Collection[str]) -> dict[str, Sealed]:
    """Return the values of those of the tenant's secrets that have one of these names."""
    found = conn.execute(_VALUES, {"tenant_id": tenant_id, "names": list(names)})
    return {
        name: Sealed(content=bytes(value), sealed_with=sealed_with)
        for name, value, sealed_with in found
    }


# jsonpath: a header within whatever action, however deep in a workflow or a delay.
_NAMING = """
SELECT 'trigger' AS kind, custom_table.id::text AS id, custom_table.name AS name
FROM custom_table
WHERE tenant_id = %(tenant_id)s
    AND trashed_at IS NULL
    AND triggers @? %(path)s::jsonpath
UNION ALL
SELECT 'trigger_rule', trigger_rule.id::text, trigger_rule.name
FROM trigger_rule
WHERE tenant_id = %(tenant_id)s
    AND actions @? %(path)s::jsonpath
UNION ALL
SELECT 'workflow', workflow.id::text, workflow.name
FROM workflow
JOIN workflow_version AS newest
    ON newest.workflow_id = workflow.id AND newest.version = workflow.version
WHERE workflow.tenant_id = %(tenant_id)s
    AND workflow.deleted_at IS NULL
    AND newest.nodes @? %(path)s::jsonpath
ORDER BY kind, name, id
LIMIT %(limit)s
"""


def list_naming(
    conn: Connection, tenant_id: UUID, name: str, *, limit: int
) -> list[tuple[str, str]]:
    """Return (kind, name) of live definitions that name a secret; of a trigger, its table's name.

    ``name`` is that of a secret: it has no character that a path would have to escape.
    """
    path = f'$.**.headers.*.secret ? (@ == "{name}")'
    parameters = {"tenant_id": tenant_id, "path": path, "limit": limit}
    return [(kind, named) for kind, _, named in conn.execute(_NAMING, parameters)]


def _parameters(tenant_id: UUID, name: str, value: Sealed, now: datetime) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "name": name,
        "value": value.content,
        "sealed_with": value.sealed_with,
        "now": now,
    }


def _secrets(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[TenantSecret]:
    with conn.cursor(row_factory=class_row(TenantSecret)) as cursor:
        return cursor.execute(statement, parameters).fetchall()
