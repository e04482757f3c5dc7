"""Workflows of a tenant and their versions, which never change."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.columns import size_of
from shared.domain.workflows import Workflow
from shared.errors import Conflict, NotFound, StaleVersion
from shared.queries.pages import Page, id_of, read_page

_SELECT = """
SELECT
    workflow.id,
    workflow.tenant_id,
    workflow.name,
    version.version,
    version.nodes,
    workflow.created_at,
    workflow.updated_at
FROM workflow
JOIN workflow_version AS version ON version.workflow_id = workflow.id
WHERE workflow.tenant_id = %(tenant_id)s AND workflow.deleted_at IS NULL
"""
_NEWEST = _SELECT + "    AND version.version = workflow.version\n"
_BY_ID = _NEWEST + "    AND workflow.id = %(workflow_id)s\n"


def get_workflow(conn: Connection, tenant_id: UUID, workflow_id: int) -> Workflow:
    """Return a workflow in its newest version; raises NotFound ``workflow_not_found``."""
    found = _workflows(conn, _BY_ID, {"tenant_id": tenant_id, "workflow_id": workflow_id})
    if not found:
        raise _not_found(workflow_id)
    return found[0]


_BY_VERSION = (
    _SELECT
    + """
    AND workflow.id = %(workflow_id)s
    AND version.version = %(version)s
"""
)


def get_version(conn: Connection, tenant_id: UUID, workflow_id: int, version: int) -> Workflow:
    """Return a workflow as it was in a version, under its present name.

    Raises NotFound ``workflow_version_not_found``.
    """
    parameters = {"tenant_id": tenant_id, "workflow_id": workflow_id, "version": version}
    found = _workflows(conn, _BY_VERSION, parameters)
    if not found:
        message = f"workflow {workflow_id} has no version {version}"
        raise NotFound(message, code="workflow_version_not_found")
    return found[0]


_BY_NAMES = _NEWEST + "    AND workflow.name = ANY(%(names)s)\nORDER BY workflow.id\n"


def list_workflows_by_name(
    conn: Connection, tenant_id: UUID, names: Sequence[str]
) -> list[Workflow]:
    """Return those of the tenant's workflows that have one of these names."""
    return _workflows(conn, _BY_NAMES, {"tenant_id": tenant_id, "names": list(names)})


def find_workflow(conn: Connection, tenant_id: UUID, name: str) -> Workflow | None:
    """Return the tenant's workflow of this name in its newest version, None without one."""
    found = list_workflows_by_name(conn, tenant_id, [name])
    return found[0] if found else None


_LIST = (
    _NEWEST
    + """
    AND workflow.id > %(after)s
ORDER BY workflow.id
LIMIT %(limit)s
"""
)


def list_workflows(
    conn: Connection, tenant_id: UUID, *, after: int | None = None, limit: int
) -> Page[Workflow]:
    """Return a page of the tenant's workflows by id, behind ``after``, in their newest versions.

    It is short when they are large.
    """

    def read(after: int, limit: int) -> list[Workflow]:
        return _workflows(conn, _LIST, {"tenant_id": tenant_id, "after": after, "limit": limit})

    return read_page(
        read,
        after=after or 0,
        limit=limit,
        size=lambda workflow: size_of({"nodes": workflow.nodes}),
        place=id_of,
    )


_COUNT = """
SELECT count(*)
FROM workflow
WHERE tenant_id = %(tenant_id)s AND deleted_at IS NULL
"""


def count_workflows(conn: Connection, tenant_id: UUID) -> int:
    """Return how many workflows the tenant has."""
    row = conn.execute(_COUNT, {"tenant_id": tenant_id}).fetchone()
    assert row is not None
    count: int = row[0]
    return count


_INSERT = """
WITH made AS (
    INSERT INTO workflow (tenant_id, name, created_at, updated_at)
    VALUES (%(tenant_id)s, %(name)s, %(now)s, %(now)s)
    ON CONFLICT (tenant_id, name) WHERE deleted_at IS NULL DO NOTHING
    RETURNING id, tenant_id, name, version, created_at, updated_at
), kept AS (
    INSERT INTO workflow_version (workflow_id, version, tenant_id, nodes, created_at)
    SELECT id, version, tenant_id, %(nodes)s::jsonb, %(now)s
    FROM made
)
SELECT id, tenant_id, name, version, %(nodes)s::jsonb AS nodes, created_at, updated_at
FROM made
"""


def insert_workflow(
    conn: Connection, *, tenant_id: UUID, name: str, nodes: list[dict[str, Any]], now: datetime
) -> Workflow:
    """Insert a workflow and return it; raises Conflict ``workflow_exists`` for a name in use."""
    parameters = {"tenant_id": tenant_id, "name": name, "nodes": Jsonb(nodes), "now": now}
    found = _workflows(conn, _INSERT, parameters)
    if not found:
        raise _exists()
    return found[0]


_UPDATE = """
WITH moved AS (
    UPDATE workflow
    SET name = %(name)s, version = version + 1, updated_at = %(now)s
    WHERE tenant_id = %(tenant_id)s
        AND id = %(workflow_id)s
        AND version = %(version)s
        AND deleted_at IS NULL
    RETURNING id, tenant_id, name, version, created_at, updated_at
), kept AS (
    INSERT INTO workflow_version (workflow_id, version, tenant_id, nodes, created_at)
    SELECT id, version, tenant_id, %(nodes)s::jsonb, %(now)s
    FROM moved
)
SELECT id, tenant_id, name, version, %(nodes)s::jsonb AS nodes, created_at, updated_at
FROM moved
"""


def update_workflow(conn: Connection, workflow: Workflow, *, now: datetime) -> Workflow:
    """Store name and nodes of an edited workflow as its next version and return that.

    ``workflow.version`` is the one the edit is based on; raises StaleVersion when it is no longer
    the newest, Conflict ``workflow_exists`` when another has the name.
    """
    parameters = {
        "tenant_id": workflow.tenant_id,
        "workflow_id": workflow.id,
        "name": workflow.name,
        "version": workflow.version,
        "nodes": Jsonb(workflow.nodes),
        "now": now,
    }
    try:
        with conn.transaction():
            found = _workflows(conn, _UPDATE, parameters)
    except UniqueViolation as error:
        raise _exists() from error
    if not found:
        raise StaleVersion(f"workflow {workflow.id} was changed meanwhile")
    return found[0]


_DELETE = """
UPDATE workflow
SET deleted_at = %(now)s, updated_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND id = %(workflow_id)s AND deleted_at IS NULL
"""


def delete_workflow(conn: Connection, tenant_id: UUID, workflow_id: int, *, now: datetime) -> None:
    """Delete a workflow softly: its executions go on; raises NotFound ``workflow_not_found``."""
    parameters = {"tenant_id": tenant_id, "workflow_id": workflow_id, "now": now}
    if conn.execute(_DELETE, parameters).rowcount == 0:
        raise _not_found(workflow_id)


_NODES = """
SELECT nodes
FROM workflow_version
WHERE workflow_id = %(workflow_id)s AND version = %(version)s
"""


def read_nodes(conn: Connection, workflow_id: int, version: int) -> list[dict[str, Any]]:
    """Return the nodes of a version that an execution goes by, of a deleted workflow too."""
    row = conn.execute(_NODES, {"workflow_id": workflow_id, "version": version}).fetchone()
    assert row is not None
    nodes: list[dict[str, Any]] = row[0]
    return nodes


def _exists() -> Conflict:
    return Conflict("a workflow has this name already", code="workflow_exists")


def _not_found(workflow_id: int) -> NotFound:
    return NotFound(f"workflow {workflow_id} does not exist", code="workflow_not_found")


def _workflows(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[Workflow]:
    with conn.cursor(row_factory=class_row(Workflow)) as cursor:
        return cursor.execute(statement, parameters).fetchall()
