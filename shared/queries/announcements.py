"""Which pending work is due, and its announcement: a row is offered until somebody claims it.

Whoever makes a row for immediate sending makes it announced; every other row, and one whose
announcement was lost, is found here by its age. What is urgent is asked for by itself, so that a
burst of scheduled work never stands in front of it; and each table (``kind``) by itself, so that
each statement has one index to walk.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row, class_row

from shared.domain.work import Announced, ReferenceKind, WorkKind
from shared.queries.fair_turns import Index, fair_turns
from shared.queries.life_cycle import HELD, for_both

# Two ways to select what is due, each as a list ``due``; a claim without a broker uses them too.
# The limit is asked for: beside many rows the planner finds a plan for one that it knows so much
# cheaper than for any that it plans every batch anew, for a third of what a small batch costs.
OLDEST_DUE = """
WITH due AS MATERIALIZED (
    SELECT id, announce_at, worker_losses
    FROM {table}
    WHERE status = 'pending'
        AND urgent = %(urgent)s
        AND announce_at <= (SELECT clock_timestamp())
    ORDER BY announce_at, id
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
)
"""

_WAITING = Index(
    table="{table}",
    waits="status = 'pending'",
    group="tenant_id, urgent",
    rest=", %(urgent)s",
    at="announce_at",
    keys="id",
)

_STILL_DUE = """
due AS MATERIALIZED (
    SELECT id, announce_at, worker_losses
    FROM {table}
    WHERE id = ANY(ARRAY(SELECT id FROM candidates)) AND announce_at <= clock_timestamp()
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
"""

FAIREST_DUE = fair_turns(_WAITING, now="(SELECT clock_timestamp())") + _STILL_DUE

_ANNOUNCE = """
UPDATE {table} AS work
SET announcements = work.announcements + 1,
    announce_at = clock_timestamp()
        + least(interval '60 s' * 2 ^ least(work.announcements, 4), interval '10 min')
WHERE work.id = ANY(ARRAY(SELECT id FROM due))
RETURNING
    '{table}' AS kind,
    work.id,
    work.lease_token AS token,
    work.urgent,
    work.worker_losses,
    work.announcements,
    work.tenant_id,
    {execution_id} AS execution_id
"""

_ANNOUNCE_BATCH = for_both(OLDEST_DUE + _ANNOUNCE)


def announce_batch(
    conn: Connection, *, kind: WorkKind, urgent: bool, limit: int
) -> list[Announced]:
    """pending -> pending: mark up to ``limit`` due rows announced, the oldest; the token stays.

    Those that are ``urgent``, or the others.

    As many as ``limit`` mean a backlog: take the next batch fairly. After a fair batch that came
    back short, come back here; when this one is short, all that was due has been taken.
    """
    with conn.cursor(row_factory=class_row(Announced)) as cursor:
        parameters = {"urgent": urgent, "limit": limit}
        return cursor.execute(_ANNOUNCE_BATCH[kind], parameters).fetchall()


_ANNOUNCE_BATCH_FAIRLY = for_both(FAIREST_DUE + _ANNOUNCE)


def announce_batch_fairly(
    conn: Connection, *, kind: WorkKind, urgent: bool, limit: int, after: UUID
) -> list[Announced]:
    """pending -> pending: as ``announce_batch``, the oldest of each tenant in turn.

    Up to 1000 tenants behind ``after`` in circular order are looked at: give a random one. A short
    batch does not mean that nothing more is due.
    """
    with conn.cursor(row_factory=class_row(Announced)) as cursor:
        parameters = {"urgent": urgent, "limit": limit, "after": after}
        return cursor.execute(_ANNOUNCE_BATCH_FAIRLY[kind], parameters).fetchall()


_UNANNOUNCE = for_both("""
WITH unsent AS MATERIALIZED (
    SELECT work.id
    FROM (
        SELECT id, token
        FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS named (id, token)
        ORDER BY id
    ) AS reference
    CROSS JOIN LATERAL (
        SELECT id
        FROM {table}
        WHERE id = reference.id
            AND lease_token = reference.token
            AND announce_at IS NOT NULL
            AND announcements > 0
        FOR UPDATE
    ) AS work
)
UPDATE {table}
SET announcements = announcements - 1, announce_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM unsent))
RETURNING id
""")


def unannounce(conn: Connection, announced: Sequence[Announced]) -> list[Announced]:
    """pending -> pending: take announcements back that were not confirmed; return those."""
    return [row for kind in HELD for row in _unannounce(conn, announced, kind)]


def _unannounce(
    conn: Connection, announced: Sequence[Announced], kind: WorkKind
) -> list[Announced]:
    rows = [row for row in announced if row.kind == kind]
    if not rows:
        return []
    parameters = {"ids": [row.id for row in rows], "tokens": [row.token for row in rows]}
    moved = {id for (id,) in conn.execute(_UNANNOUNCE[kind], parameters)}
    return [row for row in rows if row.id in moved]


class Wait(NamedTuple):
    """How long until the first of a table's waiting rows wants to be offered; urgent ones apart.

    ``seconds`` are not above zero when it is due. Changes that were approved are all urgent.
    """

    kind: ReferenceKind
    urgent: bool
    seconds: float


# Five looks at the head of an index, whatever waits behind.
_EARLIEST = """
WITH earliest AS (
    SELECT
        'trigger_run' AS kind,
        true AS urgent,
        (SELECT min(announce_at) FROM trigger_run WHERE status = 'pending' AND urgent) AS at
    UNION ALL
    SELECT
        'trigger_run',
        false,
        (SELECT min(announce_at) FROM trigger_run WHERE status = 'pending' AND NOT urgent)
    UNION ALL
    SELECT
        'scheduled_action',
        true,
        (SELECT min(announce_at) FROM scheduled_action WHERE status = 'pending' AND urgent)
    UNION ALL
    SELECT
        'scheduled_action',
        false,
        (SELECT min(announce_at) FROM scheduled_action WHERE status = 'pending' AND NOT urgent)
    UNION ALL
    SELECT
        'staged_change',
        true,
        (SELECT min(announce_at) FROM staged_change WHERE status = 'approved')
)
"""

_WAITS = """
SELECT kind, urgent, extract(epoch FROM at - clock_timestamp())::float8 AS seconds
FROM earliest
WHERE at IS NOT NULL
"""

_LIST_WAITS = _EARLIEST + _WAITS


def list_waits(conn: Connection) -> list[Wait]:
    """Return how long each table's waiting rows wait, where there are any."""
    with conn.cursor(row_factory=args_row(Wait)) as cursor:
        return cursor.execute(_LIST_WAITS).fetchall()


_OF_ALL = """
SELECT min(at)
FROM earliest
"""

_NEXT_ANNOUNCEMENT_AT = _EARLIEST + _OF_ALL


def next_announcement_at(conn: Connection) -> datetime | None:
    """Return when the next waiting row wants to be offered, None when none does."""
    row = conn.execute(_NEXT_ANNOUNCEMENT_AT).fetchone()
    return row[0] if row else None


# The longest due of each table, urgent ones apart.
_LONGEST_DUE = """
WITH due AS (
    (
        SELECT 'trigger_run' AS kind, announcements
        FROM trigger_run
        WHERE status = 'pending' AND urgent AND announce_at <= (SELECT clock_timestamp())
        ORDER BY announce_at, id
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT 'trigger_run' AS kind, announcements
        FROM trigger_run
        WHERE status = 'pending' AND NOT urgent AND announce_at <= (SELECT clock_timestamp())
        ORDER BY announce_at, id
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT 'scheduled_action' AS kind, announcements
        FROM scheduled_action
        WHERE status = 'pending' AND urgent AND announce_at <= (SELECT clock_timestamp())
        ORDER BY announce_at, id
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT 'scheduled_action' AS kind, announcements
        FROM scheduled_action
        WHERE status = 'pending' AND NOT urgent AND announce_at <= (SELECT clock_timestamp())
        ORDER BY announce_at, id
        LIMIT %(limit)s
    )
)
"""

_COUNT = """
SELECT count(*)
FROM (SELECT FROM due LIMIT %(limit)s) AS counted
"""

_COUNT_DUE = _LONGEST_DUE + _COUNT


def count_due(conn: Connection, *, limit: int) -> int:
    """Return how many pending rows want to be offered now, counting no further than ``limit``."""
    row = conn.execute(_COUNT_DUE, {"limit": limit}).fetchone()
    return row[0] if row else 0


_COUNT_RUNNING = """
SELECT
    (SELECT count(*) FROM trigger_run WHERE status = 'running')
    + (SELECT count(*) FROM scheduled_action WHERE status = 'processing')
"""


def count_running(conn: Connection) -> int:
    """Return how many rows are held by workers."""
    row = conn.execute(_COUNT_RUNNING).fetchone()
    return row[0] if row else 0


_SILENT_SINCE = """
SELECT least(
    (SELECT min(updated_at) FROM trigger_run WHERE status = 'running'),
    (SELECT min(updated_at) FROM scheduled_action WHERE status = 'processing')
)
"""


def silent_since(conn: Connection) -> datetime | None:
    """Return when the held row was touched that has been silent for longest; None: none is held.

    A worker touches what it holds as it claims, writes receipts and renews its leases.
    """
    row = conn.execute(_SILENT_SINCE).fetchone()
    return row[0] if row else None


_COUNT_ANNOUNCED = """
SELECT kind, count(*)
FROM due
WHERE announcements > 0
GROUP BY kind
"""

_COUNT_OVERDUE = _LONGEST_DUE + _COUNT_ANNOUNCED


def count_overdue(conn: Connection, *, limit: int) -> Mapping[WorkKind, int]:
    """Return how many of each kind's longest due rows were announced and yet not claimed.

    ``limit`` of each table's urgent ones are looked at, and as many of its others.
    """
    counted = conn.execute(_COUNT_OVERDUE, {"limit": limit}).fetchall()
    return {kind: 0 for kind in HELD} | dict(counted)
