"""Tables: their definition, their trash, and the tick's claim of the one scanned longest ago."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row, dict_row
from psycopg.types.json import Jsonb

from shared.domain.columns import Column, column_from_json
from shared.domain.records import Approval, CustomTable
from shared.errors import NotFound, StaleVersion

SELECT_TABLES = """
SELECT
    id,
    tenant_id,
    channel_id,
    name,
    columns,
    columns_made,
    approval,
    scp_ruled,
    triggers,
    revision,
    created_at,
    updated_at,
    trashed_at
FROM custom_table
"""


def read_tables(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[CustomTable]:
    """Return the tables that a statement gives, with the columns of ``SELECT_TABLES``."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return [_table(row) for row in cursor.execute(statement, parameters)]


def _table(row: dict[str, Any]) -> CustomTable:
    columns = tuple(column_from_json(stored) for stored in row.pop("columns"))
    return CustomTable(**row, columns=columns)


def _stored_columns(columns: Sequence[Column]) -> Jsonb:
    return Jsonb([column.to_json() for column in columns])


_BY_ID = """
WHERE id = %(table_id)s
"""

_FIND_TABLE = SELECT_TABLES + _BY_ID


def find_table(conn: Connection, table_id: UUID) -> CustomTable | None:
    """Return a table, of whatever tenant, also when it is trashed; None when there is none."""
    found = read_tables(conn, _FIND_TABLE, {"table_id": table_id})
    return found[0] if found else None


_FIND_OUTLINE = SELECT_TABLES.replace("triggers,", "NULL AS triggers,") + _BY_ID


def find_outline(conn: Connection, table_id: UUID) -> CustomTable | None:
    """Return a table as ``find_table`` does, without its triggers, which may be a megabyte.

    That is all that a check asks of the tables that others name, of which there may be many.
    """
    found = read_tables(conn, _FIND_OUTLINE, {"table_id": table_id})
    return found[0] if found else None


def get_table(conn: Connection, table_id: UUID) -> CustomTable:
    """Return a live table, of whatever tenant; raises NotFound when it is absent or trashed."""
    return _live(find_table(conn, table_id), table_id)


def _live(table: CustomTable | None, table_id: UUID) -> CustomTable:
    if table is None or table.trashed_at is not None:
        raise NotFound(f"table {table_id} does not exist", code="table_not_found")
    return table


_BY_IDS = """
WHERE id = ANY(%(table_ids)b::uuid[])
ORDER BY id
"""

_LIST_TABLES_BY_ID = SELECT_TABLES + _BY_IDS


def list_tables_by_id(conn: Connection, table_ids: Sequence[UUID]) -> list[CustomTable]:
    """Return these tables, trashed ones too, by id."""
    return read_tables(conn, _LIST_TABLES_BY_ID, {"table_ids": list(table_ids)})


_FOR_EDIT = """
FOR NO KEY UPDATE
"""

_LOCK_TABLE = SELECT_TABLES + _BY_ID + _FOR_EDIT


def lock_table(conn: Connection, table_id: UUID) -> CustomTable:
    """Lock a live table against edits and ticks, not against record writes, and return it.

    Raises NotFound when it is absent or trashed, ``psycopg.errors.LockNotAvailable`` when the lock
    cannot be had within the session's limit.
    """
    found = read_tables(conn, _LOCK_TABLE, {"table_id": table_id})
    return _live(found[0] if found else None, table_id)


_LIST_HEAD = (
    SELECT_TABLES
    + """
WHERE (trashed_at IS NOT NULL) = %(trashed)s
"""
)
_OF_TENANT = """
    AND tenant_id = %(tenant_id)s
"""
_OF_CHANNEL = """
    AND channel_id = %(channel_id)s
"""
_AFTER = """
    AND (created_at, id) > (%(after_created_at)s, %(after_id)s)
"""
_LIST_TAIL = """
ORDER BY created_at, id
LIMIT %(limit)s
"""


def list_tables(
    conn: Connection,
    *,
    tenant_id: UUID | None,
    channel_id: UUID | None = None,
    trashed: bool = False,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[CustomTable]:
    """Return a page of tables by (created_at, id), behind ``after``; all tenants' for None."""
    clauses = [_LIST_HEAD]
    if tenant_id is not None:
        clauses.append(_OF_TENANT)
    if channel_id is not None:
        clauses.append(_OF_CHANNEL)
    after_created_at, after_id = after or (None, None)
    if after is not None:
        clauses.append(_AFTER)
    clauses.append(_LIST_TAIL)
    parameters = {
        "tenant_id": tenant_id,
        "channel_id": channel_id,
        "trashed": trashed,
        "after_created_at": after_created_at,
        "after_id": after_id,
        "limit": limit,
    }
    return read_tables(conn, "".join(clauses), parameters)


_INSERT_TABLE = """
INSERT INTO custom_table (
    tenant_id, channel_id, name, columns, columns_made, approval, created_at, updated_at
)
VALUES (
    %(tenant_id)s,
    %(channel_id)s,
    %(name)s,
    %(columns)s,
    %(columns_made)s,
    %(approval)s,
    %(now)s,
    %(now)s
)
RETURNING
    id, tenant_id, channel_id, name, columns, columns_made, approval, scp_ruled, triggers,
    revision, created_at, updated_at, trashed_at
"""


def insert_table(
    conn: Connection,
    *,
    tenant_id: UUID,
    channel_id: UUID | None,
    name: str,
    columns: Sequence[Column],
    columns_made: int,
    approval: Approval = "none",
    now: datetime,
) -> CustomTable:
    """Insert a table without triggers and return it."""
    parameters = {
        "tenant_id": tenant_id,
        "channel_id": channel_id,
        "name": name,
        "columns": _stored_columns(columns),
        "columns_made": columns_made,
        "approval": approval,
        "now": now,
    }
    return read_tables(conn, _INSERT_TABLE, parameters)[0]


_UPDATE_DEFINITION = """
UPDATE custom_table
SET name = %(name)s,
    columns = %(columns)s,
    columns_made = %(columns_made)s,
    approval = %(approval)s,
    scp_ruled = %(scp_ruled)s,
    triggers = %(triggers)s,
    revision = revision + 1,
    updated_at = %(now)s
WHERE id = %(table_id)s AND revision = %(revision)s AND trashed_at IS NULL
RETURNING
    id, tenant_id, channel_id, name, columns, columns_made, approval, scp_ruled, triggers,
    revision, created_at, updated_at, trashed_at
"""


def update_definition(conn: Connection, table: CustomTable, *, now: datetime) -> CustomTable:
    """Store what was edited of a table and return it with its new revision.

    ``table.revision`` is the one the edit is based on; raises StaleVersion when it is no longer
    the present one.
    """
    parameters = {
        "table_id": table.id,
        "revision": table.revision,
        "name": table.name,
        "columns": _stored_columns(table.columns),
        "columns_made": table.columns_made,
        "approval": table.approval,
        "scp_ruled": table.scp_ruled,
        "triggers": None if table.triggers is None else Jsonb(table.triggers),
        "now": now,
    }
    stored = read_tables(conn, _UPDATE_DEFINITION, parameters)
    if not stored:
        raise StaleVersion(f"table {table.id} was changed meanwhile")
    return stored[0]


_TRASH_TABLE = """
UPDATE custom_table
SET trashed_at = %(now)s, revision = revision + 1, updated_at = %(now)s
WHERE id = %(table_id)s AND trashed_at IS NULL
"""


def trash_table(conn: Connection, table_id: UUID, *, now: datetime) -> bool:
    """Trash a live table; False when it was not live."""
    return conn.execute(_TRASH_TABLE, {"table_id": table_id, "now": now}).rowcount == 1


_RESTORE_TABLE = """
UPDATE custom_table
SET trashed_at = NULL, revision = revision + 1, updated_at = %(now)s
WHERE id = %(table_id)s AND trashed_at IS NOT NULL
"""


def restore_table(conn: Connection, table_id: UUID, *, now: datetime) -> bool:
    """Take a table out of the trash; False when it was not there."""
    return conn.execute(_RESTORE_TABLE, {"table_id": table_id, "now": now}).rowcount == 1


_STORE_TRIGGERS = """
UPDATE custom_table
SET triggers = %(triggers)s, revision = revision + 1, updated_at = %(now)s
WHERE id = %(table_id)s
"""


def store_triggers(
    conn: Connection, table_id: UUID, *, triggers: list[dict[str, Any]], now: datetime
) -> None:
    """Store the triggers of a locked table, trashed or not, as a new revision."""
    parameters = {"table_id": table_id, "triggers": Jsonb(triggers), "now": now}
    conn.execute(_STORE_TRIGGERS, parameters)


class Owner(NamedTuple):
    """Whose a table is, and where it is."""

    tenant_id: UUID
    channel_id: UUID | None
    is_trashed: bool


_WHOSE_TABLE = "SELECT tenant_id, channel_id, is_trashed FROM whose_table(%(table_id)s)"


def whose_table(conn: Connection, table_id: UUID) -> Owner | None:
    """Return whose a table is, also to a session that may not see it; None when there is none."""
    with conn.cursor(row_factory=args_row(Owner)) as cursor:
        return cursor.execute(_WHOSE_TABLE, {"table_id": table_id}).fetchone()
