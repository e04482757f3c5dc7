"""Claims: pending work becomes a worker's, under a lease and a new token."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import RowMaker, dict_row

from shared.domain.runs import ClaimedRun
from shared.domain.work import Reference
from shared.queries.announcements import FAIREST_DUE, OLDEST_DUE

_OFFERED = """
WITH due AS MATERIALIZED (
    SELECT run.id
    FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS reference (id, token)
    CROSS JOIN LATERAL (
        SELECT id
        FROM trigger_run
        WHERE id = reference.id
            AND lease_token = reference.token
            AND next_attempt_at <= clock_timestamp()
        FOR UPDATE SKIP LOCKED
    ) AS run
)
"""

# A run whose worker was lost is taken alone: one that kills its process must not take its
# neighbours' budget with it. It waits until it is the oldest.
_TAKEN = """
, turns AS (
    SELECT
        id,
        worker_losses,
        row_number() OVER oldest AS turn,
        first_value(worker_losses) OVER oldest AS losses_of_first
    FROM due
    WINDOW oldest AS (ORDER BY announce_at, id)
), taken AS (
    SELECT id
    FROM turns
    WHERE CASE WHEN losses_of_first > 0 THEN turn = 1 ELSE worker_losses = 0 END
)
"""

_CLAIM = """
UPDATE trigger_run AS run
SET status = 'running',
    lease_token = %(lease_token)s,
    worker_id = %(worker_id)s,
    leased_until = clock_timestamp() + make_interval(secs => %(lease_seconds)s),
    attempts = run.attempts + 1,
    starts = run.starts + 1,
    next_attempt_at = NULL,
    announce_at = NULL,
    updated_at = clock_timestamp()
"""

_CLAIMED = """
RETURNING
    run.id,
    run.tenant_id,
    run.table_id,
    (
        SELECT owner.trashed_at IS NULL
        FROM custom_table AS owner
        WHERE owner.id = run.table_id
    ) AS table_lives,
    run.trigger_id,
    run.kind,
    run.record_id,
    run.identity,
    run.window_key,
    run.scheduled_for,
    run.definition_hash,
    run.snapshot::text,
    run.action_results::text,
    run.open_action,
    run.attempts,
    run.starts,
    run.worker_losses,
    run.depth,
    run.lease_token
"""


def _claimed_run(cursor: Cursor[Any]) -> RowMaker[ClaimedRun]:
    """Read each row by itself: one that the driver cannot read would be lost with all others."""
    make = dict_row(cursor)
    return lambda values: _readable(make(values))


def _readable(row: dict[str, Any]) -> ClaimedRun:
    try:
        row["action_results"] = json.loads(row["action_results"])
        row["snapshot"] = json.loads(row["snapshot"] or "null")
    except (ValueError, RecursionError) as error:
        row |= {"action_results": [], "snapshot": None, "unreadable": str(error)}
    return ClaimedRun(**row)


_OF_DUE = """
WHERE run.id = ANY(ARRAY(SELECT id FROM due))
"""

_OF_TAKEN = """
WHERE run.id = ANY(ARRAY(SELECT id FROM taken))
"""

_CLAIM_OFFERED = _OFFERED + _CLAIM + _OF_DUE + _CLAIMED


def claim(
    conn: Connection,
    references: Sequence[Reference],
    *,
    worker_id: int,
    lease_token: UUID,
    lease_seconds: float,
) -> list[ClaimedRun]:
    """pending -> running: take the referenced runs that are due under the references' tokens.

    ``lease_token`` is new, one for the batch. A run that is not returned is held by somebody, not
    due, or gone: never an error.
    """
    parameters = {
        "ids": [reference.id for reference in references],
        "tokens": [reference.token for reference in references],
        "worker_id": worker_id,
        "lease_token": lease_token,
        "lease_seconds": lease_seconds,
    }
    with conn.cursor(row_factory=_claimed_run) as cursor:
        return cursor.execute(_CLAIM_OFFERED, parameters).fetchall()


_CLAIM_OLDEST = OLDEST_DUE + _TAKEN + _CLAIM + _OF_TAKEN + _CLAIMED
_CLAIM_FAIREST = FAIREST_DUE + _TAKEN + _CLAIM + _OF_TAKEN + _CLAIMED


def claim_due(
    conn: Connection,
    *,
    urgent: bool,
    limit: int,
    after: UUID | None,
    worker_id: int,
    lease_token: UUID,
    lease_seconds: float,
) -> list[ClaimedRun]:
    """pending -> running: take up to ``limit`` due runs; for a worker without a broker.

    Those that are ``urgent``, or the others.
    The oldest, or with ``after`` the oldest of each tenant in turn, as ``announce_batch_fairly``
    does. A run whose worker was lost comes alone.
    """
    parameters = {
        "urgent": urgent,
        "limit": limit,
        "after": after,
        "worker_id": worker_id,
        "lease_token": lease_token,
        "lease_seconds": lease_seconds,
    }
    statement = _CLAIM_OLDEST if after is None else _CLAIM_FAIREST
    with conn.cursor(row_factory=_claimed_run) as cursor:
        return cursor.execute(statement, parameters).fetchall()
