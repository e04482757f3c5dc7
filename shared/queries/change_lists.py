"""Staged changes as people see them: one, and pages of them by a filter."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.columns import size_of
from shared.domain.records import CustomTable
from shared.domain.staged_changes import ChangeStatus, Operation, StagedChange
from shared.errors import NotFound
from shared.queries.pages import Page, id_of, read_page


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """Which changes of a table; None does not restrict.

    The bounds are on ``created_at``: ``from_at`` belongs to the range, ``to_at`` does not.
    """

    status: ChangeStatus | None = None
    operation: Operation | None = None
    record_id: int | None = None
    run_id: int | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


SELECT_CHANGES = """
SELECT
    id,
    tenant_id,
    table_id,
    record_id,
    operation,
    base_version,
    base,
    proposed,
    origin_key,
    run_id,
    scheduled_action_id,
    depth,
    status,
    reviewed_at,
    reviewed_by,
    reason,
    announcements,
    token,
    error,
    created_at,
    updated_at,
    finished_at
FROM staged_change
"""

_BY_ID = """
WHERE id = %(change_id)s AND table_id = %(table_id)s
"""

_GET_CHANGE = SELECT_CHANGES + _BY_ID


def get_change(conn: Connection, table: CustomTable, change_id: int) -> StagedChange:
    """Return a change of the table; raises NotFound ``staged_change_not_found``."""
    with conn.cursor(row_factory=class_row(StagedChange)) as cursor:
        values = {"table_id": table.id, "change_id": change_id}
        found = cursor.execute(_GET_CHANGE, values).fetchone()
    if found is None:
        message = f"staged change {change_id} does not exist"
        raise NotFound(message, code="staged_change_not_found")
    return found


# One clause for each filter given, and never prepared: a plan for optional filters, or for a table
# of average size, could use none of the indexes.
_OF_TABLE = """
WHERE table_id = %(table_id)s
"""
_CLAUSES: tuple[tuple[str, LiteralString], ...] = (
    ("status", "    AND status = %(status)s\n"),
    ("operation", "    AND operation = %(operation)s\n"),
    ("record_id", "    AND record_id = %(record_id)s\n"),
    ("run_id", "    AND run_id = %(run_id)s\n"),
    ("from_at", "    AND created_at >= %(from_at)s\n"),
    ("to_at", "    AND created_at < %(to_at)s\n"),
)
_BEFORE = "    AND id < %(before)s\n"
_NEWEST_FIRST = """
ORDER BY id DESC
LIMIT %(limit)s
"""
_BATCH = 100


def clauses(filter: ChangeFilter) -> LiteralString:
    """Return the WHERE of a table's changes that the filter finds."""
    given = (clause for name, clause in _CLAUSES if getattr(filter, name) is not None)
    return _OF_TABLE + "".join(given)


def parameters(table: CustomTable, filter: ChangeFilter) -> dict[str, Any]:
    """Return the parameters of ``clauses``."""
    return {"table_id": table.id} | {name: getattr(filter, name) for name, _ in _CLAUSES}


def list_changes(
    conn: Connection,
    table: CustomTable,
    filter: ChangeFilter,
    *,
    before: int | None = None,
    limit: int,
) -> Page[StagedChange]:
    """Return up to ``limit`` changes of the table, the newest first, those below id ``before``.

    Fewer when their cells are large: one call reads 8 million characters at most.
    """

    def read(before: int | None, limit: int) -> list[StagedChange]:
        behind = "" if before is None else _BEFORE
        statement = SELECT_CHANGES + clauses(filter) + behind + _NEWEST_FIRST
        values = parameters(table, filter) | {"before": before, "limit": limit}
        with conn.cursor(row_factory=class_row(StagedChange)) as cursor:
            return cursor.execute(statement, values, prepare=False).fetchall()

    return read_page(
        read,
        after=before,
        limit=limit,
        size=lambda change: size_of(change.base or {}) + size_of(change.proposed or {}),
        place=id_of,
        batch_size=_BATCH,
    )
