"""What the evaluator sees of records: one date cell, the cells its ``when`` names, and no more."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row


class WalkRow(NamedTuple):
    """A live record before a date trigger; a tuple, since a page has up to 10,000 of them.

    ``cell`` is the schedule's column as text, which is a date only if the cell is a text; ``data``
    has the cells by column id that were asked for. ``look_at`` is the instant of the due index's
    entry, None without one.
    """

    record_id: int
    version: int
    created_at: datetime
    cell: str | None
    data: dict[str, Any]
    look_at: datetime | None


class WalkKey(NamedTuple):
    """Where a live record stands in the order of the walk."""

    record_id: int
    created_at: datetime


_BEGINNING = (datetime.min.replace(tzinfo=UTC), 0)

# A whole row costs several times what one cell does.
_PAGE = """
SELECT
    record.id,
    record.version,
    record.created_at,
    record.data ->> %(column_id)s,
    CASE
        WHEN cardinality(%(when_ids)b::text[]) = 0 THEN '{}'
        ELSE (
            SELECT jsonb_object_agg(named.id, record.data -> named.id)
            FROM unnest(%(when_ids)b::text[]) AS named (id)
        )
    END,
    due_value.fire_at
FROM record
LEFT JOIN due_value
    ON due_value.trigger_ref = %(trigger_ref)s AND due_value.record_id = record.id
"""

_BEHIND_CURSOR = """
WHERE record.table_id = %(table_id)s
    AND record.deleted_at IS NULL
    AND (record.created_at, record.id) > (%(created_at)s, %(record_id)s)
ORDER BY record.created_at, record.id
LIMIT %(limit)s
"""

_WALK_PAGE = _PAGE + _BEHIND_CURSOR


def walk_page(
    conn: Connection,
    *,
    table_id: UUID,
    trigger_ref: int,
    column_id: str,
    when_ids: Sequence[str],
    cursor: tuple[datetime, int] | None,
    limit: int,
) -> list[WalkRow]:
    """Return up to ``limit`` live records by (created_at, id), behind the cursor (None: the first).

    Fewer than ``limit`` mean the end of the table.
    """
    created_at, record_id = cursor or _BEGINNING
    parameters = {
        "table_id": table_id,
        "trigger_ref": trigger_ref,
        "column_id": column_id,
        "when_ids": list(when_ids),
        "created_at": created_at,
        "record_id": record_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=args_row(WalkRow)) as rows:
        return rows.execute(_WALK_PAGE, parameters).fetchall()


_KEYS = """
SELECT record.id, record.created_at
FROM record
"""

_WALK_KEYS = _KEYS + _BEHIND_CURSOR


def walk_keys(
    conn: Connection, *, table_id: UUID, cursor: tuple[datetime, int] | None, limit: int
) -> list[WalkKey]:
    """Return the keys of what ``walk_page`` would return, whatever the rows hold."""
    created_at, record_id = cursor or _BEGINNING
    parameters = {
        "table_id": table_id,
        "created_at": created_at,
        "record_id": record_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=args_row(WalkKey)) as rows:
        return rows.execute(_WALK_KEYS, parameters).fetchall()


_BY_ID = """
WHERE record.id = ANY(%(record_ids)b::bigint[])
    AND record.table_id = %(table_id)s
    AND record.deleted_at IS NULL
ORDER BY record.id
"""

_WALK_ROWS = _PAGE + _BY_ID


def walk_rows(
    conn: Connection,
    *,
    table_id: UUID,
    trigger_ref: int,
    column_id: str,
    when_ids: Sequence[str],
    record_ids: Sequence[int],
) -> list[WalkRow]:
    """Return those of these records of the table that are live, by id."""
    parameters = {
        "table_id": table_id,
        "trigger_ref": trigger_ref,
        "column_id": column_id,
        "when_ids": list(when_ids),
        "record_ids": list(record_ids),
    }
    with conn.cursor(row_factory=args_row(WalkRow)) as rows:
        return rows.execute(_WALK_ROWS, parameters).fetchall()
