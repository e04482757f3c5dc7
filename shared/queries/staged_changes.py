"""Staged changes and their arrows: staged, reviewed, announced, and ended by their application.

Each function is an arrow of docs/state-machines.md. There is no lease: the application is one
transaction that locks the row and leaves ``approved``. ``change_lists`` has what people see.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.records import CustomTable
from shared.domain.staged_changes import ApprovedChange, NewChange, StagedChange, Verdict
from shared.domain.work import Announced, Reference
from shared.queries.change_lists import SELECT_CHANGES, ChangeFilter, clauses, parameters

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


_OLDEST_APPROVED = """
WITH due AS MATERIALIZED (
    SELECT id
    FROM staged_change
    WHERE status = 'approved' AND announce_at <= (SELECT clock_timestamp())
    ORDER BY announce_at, id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
"""

# As of work (``announcements``): up to 1000 tenants in circular order, their oldest in turn.
_FAIREST_APPROVED = """
WITH circle AS (
    (SELECT 0 AS lap, id FROM tenant WHERE id > %(after)s ORDER BY id LIMIT 1000)
    UNION ALL
    (SELECT 1 AS lap, id FROM tenant WHERE id <= %(after)s ORDER BY id LIMIT 1000)
    ORDER BY lap, id
    LIMIT 1000
), waiting AS MATERIALIZED (
    SELECT circle.id, %(limit)s::bigint * 10 / count(*) OVER () + 1 AS share
    FROM circle
    WHERE EXISTS (
        SELECT
        FROM staged_change AS change
        WHERE change.tenant_id = circle.id
            AND change.status = 'approved'
            AND change.announce_at <= (SELECT clock_timestamp())
    )
), candidates AS MATERIALIZED (
    SELECT turns.id
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT
            change.id,
            change.announce_at,
            row_number() OVER (ORDER BY change.announce_at, change.id) AS turn
        FROM staged_change AS change
        WHERE change.tenant_id = waiting.id
            AND change.status = 'approved'
            AND change.announce_at <= (SELECT clock_timestamp())
        ORDER BY change.announce_at, change.id
        LIMIT least(waiting.share, %(limit)s)
    ) AS turns
    ORDER BY turns.turn, turns.announce_at, turns.id
    LIMIT %(limit)s
), due AS MATERIALIZED (
    SELECT id
    FROM staged_change
    WHERE id = ANY(ARRAY(SELECT id FROM candidates)) AND announce_at <= clock_timestamp()
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
"""

_ANNOUNCE = """
UPDATE staged_change AS change
SET announcements = change.announcements + 1,
    announce_at = clock_timestamp()
        + least(interval '60 s' * 2 ^ least(change.announcements, 4), interval '10 min')
WHERE change.id = ANY(ARRAY(SELECT id FROM due))
RETURNING
    'staged_change' AS kind,
    change.id,
    change.token,
    true AS urgent,
    0 AS worker_losses,
    change.announcements
"""

_ANNOUNCE_OLDEST = _OLDEST_APPROVED + _ANNOUNCE
_ANNOUNCE_FAIREST = _FAIREST_APPROVED + _ANNOUNCE


def announce_changes(conn: Connection, *, limit: int, after: UUID | None) -> list[Announced]:
    """approved -> approved: mark up to ``limit`` due changes announced; the token stays.

    The oldest, or with ``after`` the oldest of each tenant in turn, as ``announce_batch_fairly``
    does. Also a worker without a broker takes them so: applied or not, they come again by age.
    """
    statement = _ANNOUNCE_OLDEST if after is None else _ANNOUNCE_FAIREST
    with conn.cursor(row_factory=class_row(Announced)) as cursor:
        return cursor.execute(statement, {"limit": limit, "after": after}).fetchall()


_UNANNOUNCE = """
WITH unsent AS MATERIALIZED (
    SELECT change.id
    FROM (
        SELECT id, token
        FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS named (id, token)
        ORDER BY id
    ) AS reference
    CROSS JOIN LATERAL (
        SELECT id
        FROM staged_change
        WHERE id = reference.id AND token = reference.token AND status = 'approved'
        FOR UPDATE
    ) AS change
)
UPDATE staged_change
SET announcements = greatest(announcements - 1, 0), announce_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM unsent))
RETURNING id
"""


def unannounce_changes(conn: Connection, references: Sequence[Reference]) -> list[int]:
    """approved -> approved: take announcements back, of a broker or a worker; return the ids."""
    return [id for (id,) in conn.execute(_UNANNOUNCE, _named(references))]


_LIST_APPROVED = """
SELECT change.id, change.tenant_id, change.table_id, change.token AS lease_token
FROM staged_change AS change
WHERE change.id = ANY(%(ids)b::bigint[])
    AND change.token = ANY(%(tokens)b::uuid[])
    AND change.status = 'approved'
ORDER BY change.id
"""


def list_approved(conn: Connection, references: Sequence[Reference]) -> list[ApprovedChange]:
    """Return what of the references can still be applied, each once."""
    with conn.cursor(row_factory=class_row(ApprovedChange)) as cursor:
        return cursor.execute(_LIST_APPROVED, _named(references)).fetchall()


def _named(references: Sequence[Reference]) -> dict[str, list[int] | list[UUID]]:
    return {
        "ids": [reference.id for reference in references],
        "tokens": [reference.token for reference in references],
    }


_TO_APPLY = """
WHERE id = %(id)s AND token = %(token)s AND status = 'approved'
FOR UPDATE SKIP LOCKED
"""

_LOCK_APPROVED = SELECT_CHANGES + _TO_APPLY


def lock_approved(conn: Connection, id: int, token: UUID) -> StagedChange | None:
    """Lock an approved change for its application and return it.

    None: another applies it just now, or it has ended.
    """
    with conn.cursor(row_factory=class_row(StagedChange)) as cursor:
        return cursor.execute(_LOCK_APPROVED, {"id": id, "token": token}).fetchone()


_MARK_APPLIED = """
UPDATE staged_change
SET status = 'applied',
    record_id = %(record_id)s,
    announce_at = NULL,
    finished_at = %(now)s,
    updated_at = %(now)s
WHERE id = %(id)s AND token = %(token)s AND status = 'approved'
"""


def mark_applied(conn: Connection, id: int, token: UUID, *, record_id: int, now: datetime) -> bool:
    """approved -> applied: note that this transaction has written the record."""
    values = {"id": id, "token": token, "record_id": record_id, "now": now}
    return conn.execute(_MARK_APPLIED, values).rowcount == 1


_MARK_FAILED = """
UPDATE staged_change
SET status = 'failed',
    error = %(error)s,
    announce_at = NULL,
    finished_at = %(now)s,
    updated_at = %(now)s
WHERE id = %(id)s AND token = %(token)s AND status = 'approved'
"""


def mark_failed(conn: Connection, id: int, token: UUID, *, error: str, now: datetime) -> bool:
    """approved -> failed: end a change that cannot be applied any more."""
    values = {"id": id, "token": token, "error": error, "now": now}
    return conn.execute(_MARK_FAILED, values).rowcount == 1


_COUNT_OVERDUE = """
SELECT count(*)
FROM (
    SELECT announcements
    FROM staged_change
    WHERE status = 'approved' AND announce_at <= (SELECT clock_timestamp())
    ORDER BY announce_at, id
    LIMIT %(limit)s
) AS due
WHERE announcements > 0
"""


def count_overdue(conn: Connection, *, limit: int) -> int:
    """Return how many of the ``limit`` longest due changes were announced and yet not applied."""
    row = conn.execute(_COUNT_OVERDUE, {"limit": limit}).fetchone()
    return row[0] if row else 0


_COUNT_PENDING = """
SELECT count(*)
FROM (SELECT FROM staged_change WHERE status = 'pending' LIMIT %(limit)s) AS counted
"""


def count_pending(conn: Connection, *, limit: int) -> int:
    """Return how many changes of all tables wait for a review, counting no further than that."""
    row = conn.execute(_COUNT_PENDING, {"limit": limit}).fetchone()
    return row[0] if row else 0


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
