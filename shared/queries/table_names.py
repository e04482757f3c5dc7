"""Live tables by name: which there are within reach, and those of some names, locked."""

from collections.abc import Sequence
from uuid import UUID

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.queries.custom_tables import SELECT_TABLES, read_tables

_LIST_NAMES = """
SELECT id, name
FROM custom_table
WHERE tenant_id = %(tenant_id)s
    AND trashed_at IS NULL
    AND (%(channel_id)s::uuid IS NULL OR channel_id = %(channel_id)s)
ORDER BY name, id
"""


def list_table_names(
    conn: Connection, tenant_id: UUID, channel_id: UUID | None
) -> list[tuple[UUID, str]]:
    """Return id and name of the tenant's live tables, of one channel unless that is None."""
    parameters = {"tenant_id": tenant_id, "channel_id": channel_id}
    return conn.execute(_LIST_NAMES, parameters).fetchall()


_LOCK_NAMED = (
    SELECT_TABLES
    + """
WHERE tenant_id = %(tenant_id)s AND trashed_at IS NULL AND name = ANY(%(names)s)
ORDER BY id
FOR NO KEY UPDATE
"""
)


def lock_tables_named(conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[CustomTable]:
    """Lock the tenant's live tables of these names against edits and ticks; return them by id."""
    return read_tables(conn, _LOCK_NAMED, {"tenant_id": tenant_id, "names": list(names)})
