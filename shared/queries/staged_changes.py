"""Staged changes: staged by actions, reviewed by people, deleted when they are old.

Each function that moves one is an arrow of docs/state-machines.md. What becomes of an approved one
is in ``approved_changes``, what people see in ``change_lists``.
"""

from datetime import datetime
from typing import LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from shared.domain.records import CustomTable
from shared.domain.staged_changes import NewChange, Verdict
from shared.queries.change_lists import ChangeFilter, clauses, parameters

_FIND_BY_ORIGIN = """
SELECT id
FROM staged_change
WHERE tenant_id = %(tenant_id)s AND origin_key = %(origin_key)s
"""


def find_by_origin(conn: Connection, tenant_id: UUID, origin_key: str) -> int | None:
    """Return the id of what an action staged before under this key, or None."""
    values = {"tenant_id": tenant_id, "origin_key": origin_key}
    row = conn.execute(_FIND_BY_ORIGIN, values).fetchone()
    return row[0] if row else None


_INSERT_CHANGE = """
INSERT INTO staged_change (
    tenant_id, table_id, record_id, operation, base_version, base, proposed, origin_key, run_id,
    scheduled_action_id, depth, created_at, updated_at
)
VALUES (
    %(tenant_id)s,
    %(table_id)s,
    %(record_id)s,
    %(operation)s,
    %(base_version)s,
    %(base)s,
    %(proposed)s,
    %(origin_key)s,
    %(run_id)s,
    %(scheduled_action_id)s,
    %(depth)s,
    %(now)s,
    %(now)s
)
ON CONFLICT (tenant_id, origin_key) DO NOTHING
RETURNING id
"""


def insert_change(
    conn: Connection, table: CustomTable, change: NewChange, *, now: datetime
) -> int | None:
    """-> pending: stage a change and return its id; None when its origin has staged one before."""
    origin = change.origin
    values = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "record_id": change.record_id,
        "operation": change.operation,
        "base_version": change.base_version,
        "base": None if change.base is None else Jsonb(change.base),
        "proposed": None if change.proposed is None else Jsonb(change.proposed),
        "origin_key": origin.key,
        "run_id": origin.work_id if origin.work_kind == "trigger_run" else None,
        "scheduled_action_id": (origin.work_id if origin.work_kind == "scheduled_action" else None),
        "depth": origin.depth,
        "now": now,
    }
    row = conn.execute(_INSERT_CHANGE, values).fetchone()
    return row[0] if row else None


_APPROVED = """
UPDATE staged_change
SET status = 'approved',
    reviewed_at = %(now)s,
    reviewed_by = %(reviewed_by)s,
    reason = %(reason)s,
    announce_at = %(now)s,
    updated_at = %(now)s
"""

_REJECTED = """
UPDATE staged_change
SET status = 'rejected',
    reviewed_at = %(now)s,
    reviewed_by = %(reviewed_by)s,
    reason = %(reason)s,
    finished_at = %(now)s,
    updated_at = %(now)s
"""

_ONE = """
WHERE id = %(change_id)s AND table_id = %(table_id)s AND status = 'pending'
"""

_CHOSEN = """
WHERE id = ANY(ARRAY(
    SELECT id
    FROM staged_change
"""

_LOCKED = """
        AND status = 'pending'
    ORDER BY id
    LIMIT %(limit)s
    FOR UPDATE
))
"""

_APPROVE = _APPROVED + _ONE
_REJECT = _REJECTED + _ONE
_MATCHING: dict[Verdict, LiteralString] = {"approved": _APPROVED, "rejected": _REJECTED}


def approve(
    conn: Connection,
    table: CustomTable,
    change_id: int,
    *,
    reviewed_by: UUID | None,
    reason: str | None,
    now: datetime,
) -> bool:
    """pending -> approved: let a change be applied, at once; notify. False: it is not pending."""
    return _review(conn, _APPROVE, table, change_id, reviewed_by, reason, now)


def reject(
    conn: Connection,
    table: CustomTable,
    change_id: int,
    *,
    reviewed_by: UUID | None,
    reason: str | None,
    now: datetime,
) -> bool:
    """pending -> rejected: end a change without effect; False when it is not pending."""
    return _review(conn, _REJECT, table, change_id, reviewed_by, reason, now)


def _review(
    conn: Connection,
    statement: LiteralString,
    table: CustomTable,
    change_id: int,
    reviewed_by: UUID | None,
    reason: str | None,
    now: datetime,
) -> bool:
    values = {
        "table_id": table.id,
        "change_id": change_id,
        "reviewed_by": reviewed_by,
        "reason": reason,
        "now": now,
    }
    return conn.execute(statement, values).rowcount == 1


def review_matching(
    conn: Connection,
    table: CustomTable,
    filter: ChangeFilter,
    verdict: Verdict,
    *,
    reviewed_by: UUID | None,
    reason: str | None,
    limit: int,
    now: datetime,
) -> int:
    """pending -> approved | rejected: review up to ``limit`` that the filter finds, the oldest.

    Return how many; notify when they are approved. Only pending ones, whatever the filter says.
    """
    statement = _MATCHING[verdict] + _CHOSEN + clauses(filter) + _LOCKED
    values = parameters(table, filter) | {
        "reviewed_by": reviewed_by,
        "reason": reason,
        "limit": limit,
        "now": now,
    }
    return conn.execute(statement, values, prepare=False).rowcount


_COUNT_PENDING = """
SELECT count(*)
FROM (SELECT FROM staged_change WHERE status = 'pending' LIMIT %(limit)s) AS counted
"""


def count_pending(conn: Connection, *, limit: int) -> int:
    """Return how many changes of all tables wait for a review, counting no further than that."""
    row = conn.execute(_COUNT_PENDING, {"limit": limit}).fetchone()
    return row[0] if row else 0


_COUNT_PENDING_OF_TABLE = """
SELECT count(*)
FROM (
    SELECT
    FROM staged_change
    WHERE table_id = %(table_id)s AND status = 'pending'
    LIMIT %(limit)s
) AS counted
"""


def count_pending_of_table(conn: Connection, table_id: UUID, *, limit: int) -> int:
    """Return how many changes of a table wait for a review, counting no further than ``limit``."""
    parameters = {"table_id": table_id, "limit": limit}
    row = conn.execute(_COUNT_PENDING_OF_TABLE, parameters).fetchone()
    return row[0] if row else 0


_OLDEST_PENDING_AT = """
SELECT min(created_at)
FROM (
    SELECT first.created_at
    FROM custom_table
    CROSS JOIN LATERAL (
        SELECT created_at
        FROM staged_change
        WHERE table_id = custom_table.id AND status = 'pending'
        ORDER BY id
        LIMIT 1
    ) AS first
) AS oldest
"""


def oldest_pending_at(conn: Connection) -> datetime | None:
    """Return when the change was staged that has waited longest for a review, None without one."""
    row = conn.execute(_OLDEST_PENDING_AT).fetchone()
    return row[0] if row else None


# The receipt of the work that staged it names a change, so it stays as long as that work does.
_DELETE_FINISHED = """
WITH old AS MATERIALIZED (
    SELECT id
    FROM staged_change AS change
    WHERE finished_at < %(before)s
        AND NOT EXISTS (SELECT FROM trigger_run AS run WHERE run.id = change.run_id)
        AND NOT EXISTS (
            SELECT
            FROM scheduled_action AS action
            WHERE action.id = change.scheduled_action_id
        )
    ORDER BY finished_at, id
    LIMIT %(limit)s
    FOR UPDATE OF change SKIP LOCKED
)
DELETE FROM staged_change AS change
USING old
WHERE change.id = old.id
"""


def delete_finished(conn: Connection, *, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` changes that ended before then, the oldest; return how many went.

    A change goes when the work that staged it is gone.
    """
    return conn.execute(_DELETE_FINISHED, {"before": before, "limit": limit}).rowcount
