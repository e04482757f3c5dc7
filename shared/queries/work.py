"""What happens to work under a lease: renewed, noted, postponed, handed back, finished, recovered.

Each function is an arrow of docs/state-machines.md: its WHERE clause is the guard, and it returns
what it moved. ``kind`` is the table; ``held`` is its status of what a worker holds. Rows are locked
in id order, so that two batches never wait for each other in a circle. Claims are in ``claims``;
what a person does by hand is in ``trigger_runs`` and ``scheduled_actions``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row, class_row
from psycopg.types.json import Jsonb

from shared.db.tenant_session import TenantSession
from shared.domain.work import MAX_WORKER_LOSSES, WorkKind
from shared.queries.arrays import prepare
from shared.queries.life_cycle import HELD, for_both
from shared.queries.workers import LIVING


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of a row; ``error`` is None if it is done. Only scheduled actions are cancelled.

    ``receipts`` replace those stored; with None these stay.
    """

    id: int
    lease_token: UUID
    receipts: list[dict[str, Any]] | None
    status: Literal["done", "failed", "cancelled"]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A row that had lost its worker, and what became of it."""

    id: int
    status: Literal["pending", "failed"]


class Lease(NamedTuple):
    """A row that a worker still holds; not ``is_renewed``: a lock was in the way, for now."""

    id: int
    token: UUID
    is_renewed: bool


# What somebody has locked just now is left for the next time. To wait for one row would keep all
# others from being renewed, and could close a circle with the steps that are being written.
_RENEW = for_both("""
WITH held AS MATERIALIZED (
    SELECT id, lease_token
    FROM {table}
    WHERE worker_id = %(worker_id)s
        AND status = '{held}'
        AND lease_token = ANY(%(lease_tokens)b::uuid[])
), free AS MATERIALIZED (
    SELECT id
    FROM {table}
    WHERE worker_id = %(worker_id)s
        AND status = '{held}'
        AND lease_token = ANY(%(lease_tokens)b::uuid[])
    FOR UPDATE SKIP LOCKED
), renewed AS (
    UPDATE {table}
    SET leased_until = clock_timestamp() + make_interval(secs => %(lease_seconds)s),
        updated_at = clock_timestamp()
    WHERE id = ANY(ARRAY(SELECT id FROM free))
    RETURNING id
)
SELECT held.id, held.lease_token AS token, renewed.id IS NOT NULL AS is_renewed
FROM held
LEFT JOIN renewed ON renewed.id = held.id
ORDER BY held.id
""")


def renew(
    conn: Connection,
    *,
    kind: WorkKind,
    worker_id: int,
    lease_tokens: Sequence[UUID],
    lease_seconds: float,
) -> list[Lease]:
    """held -> held: move the leases on; return those that are still held, by id."""
    parameters = {
        "worker_id": worker_id,
        "lease_tokens": list(lease_tokens),
        "lease_seconds": lease_seconds,
    }
    with conn.cursor(row_factory=args_row(Lease)) as cursor:
        return cursor.execute(_RENEW[kind], parameters).fetchall()


_MARK_INTENTS = for_both("""
WITH intent AS MATERIALIZED (
    SELECT id, position
    FROM unnest(%(ids)b::bigint[], %(positions)b::smallint[]) AS named (id, position)
    ORDER BY id
), held AS MATERIALIZED (
    SELECT work.id
    FROM intent
    CROSS JOIN LATERAL (
        SELECT id
        FROM {table}
        WHERE id = intent.id AND lease_token = %(lease_token)s AND leased_until IS NOT NULL
        FOR UPDATE
    ) AS work
)
UPDATE {table} AS work
SET open_action = intent.position, updated_at = clock_timestamp()
FROM intent
WHERE work.id = ANY(ARRAY(SELECT id FROM held)) AND intent.id = work.id
RETURNING work.id
""")


def mark_intents(
    conn: Connection, *, kind: WorkKind, lease_token: UUID, intents: Sequence[tuple[int, int]]
) -> list[int]:
    """held -> held: note that an external action (row id, position) may now be sent.

    Return the ids of the rows still held: the action of any other must not begin.
    """
    parameters = {
        "lease_token": lease_token,
        "ids": [id for id, _ in intents],
        "positions": [position for _, position in intents],
    }
    moved = conn.execute(_MARK_INTENTS[kind], parameters, prepare=prepare(intents))
    return [id for (id,) in moved]


_SAVE_RECEIPTS = for_both("""
UPDATE {table}
SET action_results = %(receipts)s, open_action = NULL, updated_at = clock_timestamp()
WHERE id = %(id)s
    AND lease_token = %(lease_token)s
    AND (leased_until IS NOT NULL OR (announce_at IS NOT NULL AND %(is_ok)s))
RETURNING status
""")


def save_receipts(
    conn: Connection,
    *,
    kind: WorkKind,
    id: int,
    lease_token: UUID,
    receipts: list[dict[str, Any]],
    is_ok: bool,
) -> bool:
    """held -> held, pending -> pending: replace the receipts between two actions.

    False: the row is held no longer. ``is_ok``: the action that was executed last ended well; that
    is noted also for a holder whose lease ran out, as long as nobody claimed the row since.
    """
    parameters = {
        "id": id,
        "lease_token": lease_token,
        "receipts": Jsonb(receipts),
        "is_ok": is_ok,
    }
    return conn.execute(_SAVE_RECEIPTS[kind], parameters).fetchone() == (HELD[kind],)


# Only an ok that comes late has grace: its row was swept, and nobody has claimed it since.
_FINISHES = """
WITH finish AS MATERIALIZED (
    SELECT id, token, receipts, status, error
    FROM unnest(
        %(ids)b::bigint[],
        %(tokens)b::uuid[],
        %(receipts)b::jsonb[],
        %(statuses)b::text[],
        %(errors)b::text[]
    ) AS named (id, token, receipts, status, error)
    ORDER BY id
), held AS MATERIALIZED (
    SELECT work.id
    FROM finish
    CROSS JOIN LATERAL (
        SELECT id
        FROM {table}
        WHERE id = finish.id
            AND lease_token = finish.token
            AND (leased_until IS NOT NULL OR (announce_at IS NOT NULL AND finish.status = 'done'))
        FOR UPDATE
    ) AS work
)
UPDATE {table} AS work
SET status = finish.status,
    action_results = coalesce(finish.receipts, work.action_results),
    error = finish.error,
"""

_ENDED = """
    open_action = NULL,
    worker_id = NULL,
    leased_until = NULL,
    next_attempt_at = NULL,
    announce_at = NULL,
    finished_at = clock_timestamp(),
    updated_at = clock_timestamp()
"""

_OF_FINISHES = """
FROM finish
WHERE work.id = ANY(ARRAY(SELECT id FROM held)) AND finish.id = work.id
RETURNING work.id
"""

_FINISH_SEVERAL = for_both(_FINISHES + _ENDED + _OF_FINISHES)

# An internal action ends its row alone, in its own transaction: a third of the cost.
_FINISH_ALONE = """
UPDATE {table} AS work
SET status = %(status)s,
    action_results = coalesce(%(receipts)s::jsonb, work.action_results),
    error = %(error)s,
"""

_OF_ONE = """
WHERE work.id = %(id)s
    AND work.lease_token = %(token)s
    AND (work.leased_until IS NOT NULL OR (work.announce_at IS NOT NULL AND %(status)s = 'done'))
RETURNING work.id
"""

_FINISH_ONE = for_both(_FINISH_ALONE + _ENDED + _OF_ONE)


def finish(conn: Connection, finishes: Sequence[Finish], *, kind: WorkKind) -> list[int]:
    """held -> done | failed | cancelled, pending -> done: end rows; return the ids of those ended.

    ``done`` is taken from a holder whose lease ran out too, as long as nobody claimed the row since
    (the token is the same); nothing else is.
    """
    if len(finishes) == 1:
        return _finish_one(conn, finishes[0], kind)
    parameters = {
        "ids": [finish.id for finish in finishes],
        "tokens": [finish.lease_token for finish in finishes],
        "receipts": [_stored(finish.receipts) for finish in finishes],
        "statuses": [finish.status for finish in finishes],
        "errors": [finish.error for finish in finishes],
    }
    moved = conn.execute(_FINISH_SEVERAL[kind], parameters, prepare=prepare(finishes))
    return [id for (id,) in moved]


def _finish_one(conn: Connection, finish: Finish, kind: WorkKind) -> list[int]:
    parameters = {
        "id": finish.id,
        "token": finish.lease_token,
        "receipts": _stored(finish.receipts),
        "status": finish.status,
        "error": finish.error,
    }
    return [id for (id,) in conn.execute(_FINISH_ONE[kind], parameters)]


def _stored(receipts: list[dict[str, Any]] | None) -> Jsonb | None:
    return None if receipts is None else Jsonb(receipts)


_POSTPONE = for_both("""
UPDATE {table} AS work
SET status = 'pending',
    action_results = coalesce(%(receipts)s, work.action_results),
    attempts = greatest(work.attempts - (NOT %(counts)s)::int, 0),
    open_action = NULL,
    worker_id = NULL,
    leased_until = NULL,
    next_attempt_at = later.at,
    announce_at = later.at,
    updated_at = clock_timestamp()
FROM (SELECT clock_timestamp() + make_interval(secs => %(delay_seconds)s) AS at) AS later
WHERE work.id = %(id)s AND work.status = '{held}' AND work.lease_token = %(lease_token)s
""")


def postpone(
    conn: Connection,
    *,
    kind: WorkKind,
    id: int,
    lease_token: UUID,
    receipts: list[dict[str, Any]] | None,
    delay_seconds: float,
    counts: bool = True,
) -> bool:
    """held -> pending: let a row wait after a transient failure; False when fenced out.

    ``receipts`` replace those stored; with None these stay. ``counts``: the start was an attempt.
    """
    parameters = {
        "id": id,
        "lease_token": lease_token,
        "receipts": None if receipts is None else Jsonb(receipts),
        "delay_seconds": delay_seconds,
        "counts": counts,
    }
    return conn.execute(_POSTPONE[kind], parameters).rowcount == 1


_HAND_BACK = for_both("""
WITH held AS MATERIALIZED (
    SELECT work.id
    FROM (
        SELECT id, token
        FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS named (id, token)
        ORDER BY id
    ) AS lease
    CROSS JOIN LATERAL (
        SELECT id
        FROM {table}
        WHERE id = lease.id AND lease_token = lease.token AND leased_until IS NOT NULL
        FOR UPDATE
    ) AS work
), now AS MATERIALIZED (
    SELECT clock_timestamp() AS at
)
UPDATE {table} AS work
SET status = 'pending',
    attempts = greatest(work.attempts - 1, 0),
    open_action = CASE WHEN work.id = ANY(%(unsent)b::bigint[]) THEN NULL ELSE work.open_action END,
    worker_id = NULL,
    leased_until = NULL,
    next_attempt_at = now.at,
    announce_at = now.at,
    updated_at = now.at
FROM now
WHERE work.id = ANY(ARRAY(SELECT id FROM held))
RETURNING work.id
""")


def hand_back(
    conn: Connection,
    leases: Sequence[tuple[int, UUID]],
    *,
    kind: WorkKind,
    unsent: Sequence[int] = (),
) -> list[int]:
    """held -> pending: give up rows (id, lease token) before or between actions.

    The start is not counted as an attempt. ``unsent`` are those rows of which an intent was noted
    whose action has not begun. Return the ids of those that were still held.
    """
    parameters = {
        "ids": [id for id, _ in leases],
        "tokens": [token for _, token in leases],
        "unsent": list(unsent),
    }
    return [id for (id,) in conn.execute(_HAND_BACK[kind], parameters)]


_LIST_HELD = for_both("""
SELECT id
FROM {table}
WHERE worker_id = %(worker_id)s AND status = '{held}' AND lease_token = %(lease_token)s
ORDER BY id
""")


def list_held(conn: Connection, *, kind: WorkKind, worker_id: int, lease_token: UUID) -> list[int]:
    """Return the ids of the rows that a worker holds under a lease, such as an unanswered claim."""
    parameters = {"worker_id": worker_id, "lease_token": lease_token}
    return [id for (id,) in conn.execute(_LIST_HELD[kind], parameters)]


RESTART_GRACE_SECONDS = 30.0
"""A restart or failover drops all locks while the workers live: so long only the lease counts."""

# Who lives is read within the statement, after its snapshot: a worker takes its lock before it
# claims, so a holder seen in the snapshot that has none by now is gone. Read before, the list would
# lack whoever began in between. A row that was claimed or renewed since the snapshot is another.
# After a crash of one backend the server drops all sessions and yet has not begun anew: the reset
# of its statistics tells. When a standby was promoted nothing tells; but nobody had a session that
# writes before, and so one that is young says nothing of who lives where the server has replayed
# another's log. How old it is the process says: to who acts as another role than its login's the
# server does not tell. In the order of the index of what is held: in that of the ids the planner
# would walk all runs to find the few lost ones.
_LOST = """
, suspect AS MATERIALIZED (
    SELECT id, lease_token, leased_until
    FROM {table}
    WHERE status = '{held}'
        AND (
            leased_until < (SELECT clock_timestamp())
            OR (
                worker_id <> ALL(ARRAY(SELECT worker_id FROM living))
                AND (SELECT greatest(pg_postmaster_start_time(), stats_reset) FROM pg_stat_bgwriter)
                    < clock_timestamp() - make_interval(secs => %(restart_grace_seconds)s)
                AND (
                    pg_last_wal_replay_lsn() IS NULL
                    OR %(session_seconds)s > %(restart_grace_seconds)s
                )
            )
        )
    ORDER BY worker_id, id
    LIMIT %(limit)s
), lost AS MATERIALIZED (
    SELECT work.id, clock_timestamp() AS at
    FROM suspect
    CROSS JOIN LATERAL (
        SELECT id
        FROM {table}
        WHERE id = suspect.id
            AND lease_token = suspect.lease_token
            AND leased_until = suspect.leased_until
        FOR UPDATE SKIP LOCKED
    ) AS work
), judged AS (
    SELECT
        work.id,
        work.worker_losses + 1 AS losses,
        work.worker_losses + 1 >= %(max_losses)s AS is_last,
        lost.at + CASE
            WHEN work.worker_losses = 0 THEN interval '0 s'
            ELSE interval '10 s' * 2 ^ (work.worker_losses + 1)
        END AS next_at,
        lost.at
    FROM lost
    JOIN {table} AS work ON work.id = lost.id
)
UPDATE {table} AS work
SET status = CASE WHEN judged.is_last THEN 'failed' ELSE 'pending' END,
    error = CASE WHEN judged.is_last THEN %(error)s ELSE work.error END,
    finished_at = CASE WHEN judged.is_last THEN judged.at END,
    next_attempt_at = CASE WHEN judged.is_last THEN NULL ELSE judged.next_at END,
    announce_at = CASE WHEN judged.is_last THEN NULL ELSE judged.next_at END,
    attempts = greatest(work.attempts - 1, 0),
    worker_losses = judged.losses,
    worker_id = NULL,
    leased_until = NULL,
    updated_at = judged.at
FROM judged
WHERE work.id = judged.id
RETURNING work.id, work.status
"""

_RECOVER_STALE = for_both(LIVING + _LOST)


def recover_stale(
    conn: Connection,
    *,
    kind: WorkKind,
    limit: int = 500,
    restart_grace_seconds: float = RESTART_GRACE_SECONDS,
) -> list[Recovered]:
    """held -> pending | failed: take rows back whose lease is over or whose worker is gone.

    The token stays. A first loss costs no delay, later ones 10 s x 2^losses; the fifth ends the
    row, ``worker lost 5 times``.
    """
    assert isinstance(conn, TenantSession)
    parameters = {
        "limit": limit,
        "session_seconds": conn.age_seconds,
        "restart_grace_seconds": restart_grace_seconds,
        "max_losses": MAX_WORKER_LOSSES,
        "error": f"worker lost {MAX_WORKER_LOSSES} times",
    }
    with conn.cursor(row_factory=class_row(Recovered)) as cursor:
        return cursor.execute(_RECOVER_STALE[kind], parameters).fetchall()
