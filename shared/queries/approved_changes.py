"""Approved changes on their way: announced, offered to workers, locked, applied or failed.

Each function that moves one is an arrow of docs/state-machines.md. There is no lease: the
application is one transaction that locks the row and leaves ``approved``.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.staged_changes import ApprovedChange, StagedChange
from shared.domain.work import Announced, Reference
from shared.queries.change_lists import SELECT_CHANGES
from shared.queries.fair_turns import Index, fair_turns

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

_APPROVED = Index(table="staged_change", waits="status = 'approved'", at="announce_at", keys="id")

_STILL_APPROVED = """
due AS MATERIALIZED (
    SELECT id
    FROM staged_change
    WHERE id = ANY(ARRAY(SELECT id FROM candidates)) AND announce_at <= clock_timestamp()
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
"""

_FAIREST_APPROVED = fair_turns(_APPROVED, now="(SELECT clock_timestamp())") + _STILL_APPROVED

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
    change.announcements,
    change.tenant_id
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
