"""Which pending work is due, and its announcement: a row is offered until somebody claims it.

Whoever makes a row for immediate sending makes it announced; every other row, and one whose
announcement was lost, is found here by its age. What is urgent is asked for by itself, so that a
burst of scheduled work never stands in front of it.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.work import Announced, Reference

# Two ways to select what is due, each as a list ``due``; a claim without a broker uses them too.
OLDEST_DUE = """
WITH due AS MATERIALIZED (
    SELECT id, announce_at, worker_losses
    FROM trigger_run
    WHERE status = 'pending'
        AND urgent = %(urgent)s
        AND announce_at <= (SELECT clock_timestamp())
    ORDER BY announce_at, id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
"""

# One batch looks at up to 1000 tenants in circular order and takes their oldest rows in turn. The
# inner limit bounds the work when many tenants have much, so the batch may come back short.
FAIREST_DUE = """
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
        FROM trigger_run AS run
        WHERE run.tenant_id = circle.id
            AND run.status = 'pending'
            AND run.urgent = %(urgent)s
            AND run.announce_at <= (SELECT clock_timestamp())
    )
), candidates AS MATERIALIZED (
    SELECT turns.id
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT
            run.id,
            run.announce_at,
            row_number() OVER (ORDER BY run.announce_at, run.id) AS turn
        FROM trigger_run AS run
        WHERE run.tenant_id = waiting.id
            AND run.status = 'pending'
            AND run.urgent = %(urgent)s
            AND run.announce_at <= (SELECT clock_timestamp())
        ORDER BY run.announce_at, run.id
        LIMIT least(waiting.share, %(limit)s)
    ) AS turns
    ORDER BY turns.turn, turns.announce_at, turns.id
    LIMIT %(limit)s
), due AS MATERIALIZED (
    SELECT id, announce_at, worker_losses
    FROM trigger_run
    WHERE id = ANY(ARRAY(SELECT id FROM candidates)) AND announce_at <= clock_timestamp()
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
"""

_ANNOUNCE = """
UPDATE trigger_run AS run
SET announcements = run.announcements + 1,
    announce_at = clock_timestamp()
        + least(interval '60 s' * 2 ^ least(run.announcements, 4), interval '10 min')
WHERE run.id = ANY(ARRAY(SELECT id FROM due))
RETURNING run.id, run.lease_token AS token, run.urgent, run.worker_losses, run.announcements
"""

_ANNOUNCE_BATCH = OLDEST_DUE + _ANNOUNCE


def announce_batch(conn: Connection, *, urgent: bool, limit: int) -> list[Announced]:
    """pending -> pending: mark up to ``limit`` due runs announced, the oldest; the token stays.

    Those that are ``urgent``, or the others.

    As many as ``limit`` mean a backlog: take the next batch fairly. After a fair batch that came
    back short, come back here; when this one is short, all that was due has been taken.
    """
    with conn.cursor(row_factory=class_row(Announced)) as cursor:
        return cursor.execute(_ANNOUNCE_BATCH, {"urgent": urgent, "limit": limit}).fetchall()


_ANNOUNCE_BATCH_FAIRLY = FAIREST_DUE + _ANNOUNCE


def announce_batch_fairly(
    conn: Connection, *, urgent: bool, limit: int, after: UUID
) -> list[Announced]:
    """pending -> pending: as ``announce_batch``, the oldest of each tenant in turn.

    Up to 1000 tenants behind ``after`` in circular order are looked at: give a random one. A short
    batch does not mean that nothing more is due.
    """
    with conn.cursor(row_factory=class_row(Announced)) as cursor:
        parameters = {"urgent": urgent, "limit": limit, "after": after}
        return cursor.execute(_ANNOUNCE_BATCH_FAIRLY, parameters).fetchall()


_UNANNOUNCE = """
WITH unsent AS MATERIALIZED (
    SELECT run.id
    FROM (
        SELECT id, token
        FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS named (id, token)
        ORDER BY id
    ) AS reference
    CROSS JOIN LATERAL (
        SELECT id
        FROM trigger_run
        WHERE id = reference.id
            AND lease_token = reference.token
            AND announce_at IS NOT NULL
            AND announcements > 0
        FOR UPDATE
    ) AS run
)
UPDATE trigger_run
SET announcements = announcements - 1, announce_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM unsent))
RETURNING id
"""


def unannounce(conn: Connection, references: Sequence[Reference | Announced]) -> list[int]:
    """pending -> pending: take announcements back that were not confirmed; return the ids."""
    parameters = {
        "ids": [reference.id for reference in references],
        "tokens": [reference.token for reference in references],
    }
    return [id for (id,) in conn.execute(_UNANNOUNCE, parameters)]


_NEXT_ANNOUNCEMENT_AT = """
SELECT least(
    (SELECT min(announce_at) FROM trigger_run WHERE status = 'pending' AND urgent),
    (SELECT min(announce_at) FROM trigger_run WHERE status = 'pending' AND NOT urgent)
)
"""


def next_announcement_at(conn: Connection) -> datetime | None:
    """Return when the next pending run wants to be offered, None when none waits."""
    row = conn.execute(_NEXT_ANNOUNCEMENT_AT).fetchone()
    return row[0] if row else None


_COUNT_DUE = """
SELECT count(*)
FROM (
    (
        SELECT
        FROM trigger_run
        WHERE status = 'pending' AND urgent AND announce_at <= (SELECT clock_timestamp())
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT
        FROM trigger_run
        WHERE status = 'pending' AND NOT urgent AND announce_at <= (SELECT clock_timestamp())
        LIMIT %(limit)s
    )
    LIMIT %(limit)s
) AS due
"""


def count_due(conn: Connection, *, limit: int) -> int:
    """Return how many pending runs want to be offered now, counting no further than ``limit``."""
    row = conn.execute(_COUNT_DUE, {"limit": limit}).fetchone()
    return row[0] if row else 0


_COUNT_RUNNING = "SELECT count(*) FROM trigger_run WHERE status = 'running'"


def count_running(conn: Connection) -> int:
    """Return how many runs are held by workers."""
    row = conn.execute(_COUNT_RUNNING).fetchone()
    return row[0] if row else 0


_COUNT_OVERDUE = """
SELECT count(*) FILTER (WHERE announcements > 0)
FROM (
    (
        SELECT announcements
        FROM trigger_run
        WHERE status = 'pending' AND urgent AND announce_at <= (SELECT clock_timestamp())
        ORDER BY announce_at, id
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT announcements
        FROM trigger_run
        WHERE status = 'pending' AND NOT urgent AND announce_at <= (SELECT clock_timestamp())
        ORDER BY announce_at, id
        LIMIT %(limit)s
    )
) AS due
"""


def count_overdue(conn: Connection, *, limit: int) -> int:
    """Return how many were announced and yet not claimed of the longest due runs.

    ``limit`` of those that are urgent are looked at, and as many of the others.
    """
    row = conn.execute(_COUNT_OVERDUE, {"limit": limit}).fetchone()
    return row[0] if row else 0
