"""Which definitions of a tenant name a table by its id: triggers of others, rules, workflows.

They are found by their text, as it is spelled in JSON: what the id means there is the domain's to
say.
"""

from typing import LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import scalar_row

from shared.domain.records import CustomTable
from shared.queries.custom_tables import SELECT_TABLES, read_tables

_OTHERS_NAMING = """
WHERE tenant_id = %(tenant_id)s
    AND id <> %(table_id)s
    AND triggers::text ILIKE '%%' || %(table_id)s::text || '%%'
ORDER BY id
"""
_FOR_EDIT = """
FOR NO KEY UPDATE
"""

_LIST_TABLES_NAMING = SELECT_TABLES + _OTHERS_NAMING
_LOCK_TABLES_NAMING = _LIST_TABLES_NAMING + _FOR_EDIT


def list_tables_naming(conn: Connection, tenant_id: UUID, table_id: UUID) -> list[CustomTable]:
    """Return the tenant's other tables whose triggers name this one, trashed ones too, by id."""
    parameters = {"tenant_id": tenant_id, "table_id": table_id}
    return read_tables(conn, _LIST_TABLES_NAMING, parameters)


def lock_tables_naming(conn: Connection, tenant_id: UUID, table_id: UUID) -> list[CustomTable]:
    """Lock and return what ``list_tables_naming`` returns."""
    parameters = {"tenant_id": tenant_id, "table_id": table_id}
    return read_tables(conn, _LOCK_TABLES_NAMING, parameters)


_RULES_NAMING = """
SELECT id
FROM trigger_rule
WHERE tenant_id = %(tenant_id)s
    AND actions::text ILIKE '%%' || %(table_id)s::text || '%%'
ORDER BY id
"""


def rules_naming(conn: Connection, tenant_id: UUID, table_id: UUID) -> list[int]:
    """Return the ids of the tenant's rules whose actions name the table."""
    return _ids(conn, _RULES_NAMING, tenant_id, table_id)


_WORKFLOWS_NAMING = """
SELECT workflow.id
FROM workflow
JOIN workflow_version AS newest
    ON newest.workflow_id = workflow.id AND newest.version = workflow.version
WHERE workflow.tenant_id = %(tenant_id)s
    AND workflow.deleted_at IS NULL
    AND newest.nodes::text ILIKE '%%' || %(table_id)s::text || '%%'
ORDER BY workflow.id
"""


def workflows_naming(conn: Connection, tenant_id: UUID, table_id: UUID) -> list[int]:
    """Return the ids of the tenant's workflows whose newest versions name the table."""
    return _ids(conn, _WORKFLOWS_NAMING, tenant_id, table_id)


def _ids(conn: Connection, statement: LiteralString, tenant_id: UUID, table_id: UUID) -> list[int]:
    with conn.cursor(row_factory=scalar_row) as cursor:
        parameters = {"tenant_id": tenant_id, "table_id": table_id}
        return cursor.execute(statement, parameters).fetchall()
