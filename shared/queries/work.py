"""What happens to work under a lease: renewed, noted, postponed, handed back, finished, recovered.

Each function is an arrow of docs/state-machines.md: its WHERE clause is the guard, and it returns
what it moved. Rows are locked in id order, so that two batches never wait for each other in a
circle. Claims are in ``claims``; what a person does to a run by hand is in ``trigger_runs``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.work import MAX_WORKER_LOSSES
from shared.queries.arrays import prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of a run: ``receipts`` replace those stored; ``error`` is None if it is done."""

    run_id: int
    lease_token: UUID
    receipts: list[dict[str, Any]]
    status: Literal["done", "failed"]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A run that had lost its worker, and what became of it."""

    id: int
    status: Literal["pending", "failed"]


_RENEW = """
WITH held AS MATERIALIZED (
    SELECT id
    FROM trigger_run
    WHERE worker_id = %(worker_id)s
        AND status = 'running'
        AND lease_token = ANY(%(lease_tokens)b::uuid[])
    ORDER BY id
    FOR UPDATE
)
UPDATE trigger_run AS run
SET leased_until = clock_timestamp() + make_interval(secs => %(lease_seconds)s),
    updated_at = clock_timestamp()
WHERE run.id = ANY(ARRAY(SELECT id FROM held))
RETURNING run.id
"""


def renew(
    conn: Connection, *, worker_id: int, lease_tokens: Sequence[UUID], lease_seconds: float
) -> list[int]:
    """running -> running: move the leases on; return the ids of the runs that are still held."""
    parameters = {
        "worker_id": worker_id,
        "lease_tokens": list(lease_tokens),
        "lease_seconds": lease_seconds,
    }
    return [id for (id,) in conn.execute(_RENEW, parameters)]


_MARK_INTENTS = """
WITH intent AS MATERIALIZED (
    SELECT id, position
    FROM unnest(%(ids)b::bigint[], %(positions)b::smallint[]) AS named (id, position)
    ORDER BY id
), held AS MATERIALIZED (
    SELECT run.id
    FROM intent
    CROSS JOIN LATERAL (
        SELECT id
        FROM trigger_run
        WHERE id = intent.id AND lease_token = %(lease_token)s AND leased_until IS NOT NULL
        FOR UPDATE
    ) AS run
)
UPDATE trigger_run AS run
SET open_action = intent.position, updated_at = clock_timestamp()
FROM intent
WHERE run.id = ANY(ARRAY(SELECT id FROM held)) AND intent.id = run.id
RETURNING run.id
"""


def mark_intents(
    conn: Connection, *, lease_token: UUID, intents: Sequence[tuple[int, int]]
) -> list[int]:
    """running -> running: note that an external action (run id, position) may now be sent.

    Return the ids of the runs still held: the action of any other must not begin.
    """
    parameters = {
        "lease_token": lease_token,
        "ids": [run_id for run_id, _ in intents],
        "positions": [position for _, position in intents],
    }
    moved = conn.execute(_MARK_INTENTS, parameters, prepare=prepare(intents))
    return [id for (id,) in moved]


_SAVE_RECEIPTS = """
UPDATE trigger_run
SET action_results = %(receipts)s, open_action = NULL, updated_at = clock_timestamp()
WHERE id = %(run_id)s AND status = 'running' AND lease_token = %(lease_token)s
"""


def save_receipts(
    conn: Connection, *, run_id: int, lease_token: UUID, receipts: list[dict[str, Any]]
) -> bool:
    """running -> running: replace the receipts between two actions; False when fenced out."""
    parameters = {"run_id": run_id, "lease_token": lease_token, "receipts": Jsonb(receipts)}
    return conn.execute(_SAVE_RECEIPTS, parameters).rowcount == 1


# Only an ok that comes late has grace: its run was swept, and nobody has claimed it since.
_FINISH = """
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
    SELECT run.id
    FROM finish
    CROSS JOIN LATERAL (
        SELECT id
        FROM trigger_run
        WHERE id = finish.id
            AND lease_token = finish.token
            AND (leased_until IS NOT NULL OR (announce_at IS NOT NULL AND finish.status = 'done'))
        FOR UPDATE
    ) AS run
)
UPDATE trigger_run AS run
SET status = finish.status,
    action_results = finish.receipts,
    error = finish.error,
    open_action = NULL,
    worker_id = NULL,
    leased_until = NULL,
    next_attempt_at = NULL,
    announce_at = NULL,
    finished_at = clock_timestamp(),
    updated_at = clock_timestamp()
FROM finish
WHERE run.id = ANY(ARRAY(SELECT id FROM held)) AND finish.id = run.id
RETURNING run.id
"""


def finish(conn: Connection, finishes: Sequence[Finish]) -> list[int]:
    """running -> done | failed, pending -> done: end runs; return the ids of those that ended.

    ``done`` is taken from a holder whose lease ran out too, as long as nobody claimed the run since
    (the token is the same); ``failed`` is not.
    """
    parameters = {
        "ids": [finish.run_id for finish in finishes],
        "tokens": [finish.lease_token for finish in finishes],
        "receipts": [Jsonb(finish.receipts) for finish in finishes],
        "statuses": [finish.status for finish in finishes],
        "errors": [finish.error for finish in finishes],
    }
    moved = conn.execute(_FINISH, parameters, prepare=prepare(finishes))
    return [id for (id,) in moved]


_POSTPONE = """
UPDATE trigger_run AS run
SET status = 'pending',
    action_results = %(receipts)s,
    open_action = NULL,
    worker_id = NULL,
    leased_until = NULL,
    next_attempt_at = later.at,
    announce_at = later.at,
    updated_at = clock_timestamp()
FROM (SELECT clock_timestamp() + make_interval(secs => %(delay_seconds)s) AS at) AS later
WHERE run.id = %(run_id)s AND run.status = 'running' AND run.lease_token = %(lease_token)s
"""


def postpone(
    conn: Connection,
    *,
    run_id: int,
    lease_token: UUID,
    receipts: list[dict[str, Any]],
    delay_seconds: float,
) -> bool:
    """running -> pending: let a run wait after a transient failure; False when fenced out."""
    parameters = {
        "run_id": run_id,
        "lease_token": lease_token,
        "receipts": Jsonb(receipts),
        "delay_seconds": delay_seconds,
    }
    return conn.execute(_POSTPONE, parameters).rowcount == 1


_HAND_BACK = """
WITH held AS MATERIALIZED (
    SELECT run.id
    FROM (
        SELECT id, token
        FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS named (id, token)
        ORDER BY id
    ) AS lease
    CROSS JOIN LATERAL (
        SELECT id
        FROM trigger_run
        WHERE id = lease.id AND lease_token = lease.token AND leased_until IS NOT NULL
        FOR UPDATE
    ) AS run
), now AS MATERIALIZED (
    SELECT clock_timestamp() AS at
)
UPDATE trigger_run AS run
SET status = 'pending',
    attempts = greatest(run.attempts - 1, 0),
    worker_id = NULL,
    leased_until = NULL,
    next_attempt_at = now.at,
    announce_at = now.at,
    updated_at = now.at
FROM now
WHERE run.id = ANY(ARRAY(SELECT id FROM held))
RETURNING run.id
"""


def hand_back(conn: Connection, leases: Sequence[tuple[int, UUID]]) -> list[int]:
    """running -> pending: give up runs (id, lease token) before or between actions.

    The start is not counted as an attempt. Return the ids of those that were still held.
    """
    parameters = {
        "ids": [run_id for run_id, _ in leases],
        "tokens": [token for _, token in leases],
    }
    return [id for (id,) in conn.execute(_HAND_BACK, parameters)]


RESTART_GRACE_SECONDS = 30.0
"""A restart of the server drops all locks while the workers live: so long only the lease counts."""

# Who lives was read before this statement's snapshot, and a worker takes its lock before it claims:
# a holder that is not among the living is gone. In the order of the index of what is held: in that
# of the ids the planner would walk all runs to find the few lost ones.
_RECOVER_STALE = """
WITH lost AS MATERIALIZED (
    SELECT id, clock_timestamp() AS at
    FROM trigger_run
    WHERE status = 'running'
        AND (
            leased_until < (SELECT clock_timestamp())
            OR (
                worker_id <> ALL(%(living)b::int[])
                AND pg_postmaster_start_time()
                    < clock_timestamp() - make_interval(secs => %(restart_grace_seconds)s)
            )
        )
    ORDER BY worker_id, id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), judged AS (
    SELECT
        run.id,
        run.worker_losses + 1 AS losses,
        run.worker_losses + 1 >= %(max_losses)s AS is_last,
        lost.at + CASE
            WHEN run.worker_losses = 0 THEN interval '0 s'
            ELSE interval '10 s' * 2 ^ (run.worker_losses + 1)
        END AS next_at,
        lost.at
    FROM lost
    JOIN trigger_run AS run ON run.id = lost.id
)
UPDATE trigger_run AS run
SET status = CASE WHEN judged.is_last THEN 'failed' ELSE 'pending' END,
    error = CASE WHEN judged.is_last THEN %(error)s ELSE run.error END,
    finished_at = CASE WHEN judged.is_last THEN judged.at END,
    next_attempt_at = CASE WHEN judged.is_last THEN NULL ELSE judged.next_at END,
    announce_at = CASE WHEN judged.is_last THEN NULL ELSE judged.next_at END,
    attempts = greatest(run.attempts - 1, 0),
    worker_losses = judged.losses,
    worker_id = NULL,
    leased_until = NULL,
    updated_at = judged.at
FROM judged
WHERE run.id = judged.id
RETURNING run.id, run.status
"""


def recover_stale(
    conn: Connection,
    *,
    living: Sequence[int],
    limit: int = 500,
    restart_grace_seconds: float = RESTART_GRACE_SECONDS,
) -> list[Recovered]:
    """running -> pending | failed: take runs back whose lease is over or whose worker is gone.

    ``living`` comes from ``workers.living_workers``, read before. The token stays. A first loss
    costs no delay, later ones 10 s x 2^losses; the fifth ends the run, ``worker lost 5 times``.
    """
    parameters = {
        "living": list(living),
        "limit": limit,
        "restart_grace_seconds": restart_grace_seconds,
        "max_losses": MAX_WORKER_LOSSES,
        "error": f"worker lost {MAX_WORKER_LOSSES} times",
    }
    with conn.cursor(row_factory=class_row(Recovered)) as cursor:
        return cursor.execute(_RECOVER_STALE, parameters).fetchall()
