"""Claims: pending work becomes a worker's, under a lease and a new token.

A claimed run comes with all that executing it needs. Of a scheduled action only the id comes: what
belongs to it is read after the claim has committed (``claimed_actions.load_claimed``).
"""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import RowMaker, args_row, dict_row

from shared.domain.runs import ClaimedRun
from shared.domain.work import Reference, WorkKind
from shared.queries.announcements import FAIREST_DUE, OLDEST_DUE
from shared.queries.life_cycle import for_both, made_for

_OFFERED = """
WITH due AS MATERIALIZED (
    SELECT work.id
    FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS reference (id, token)
    CROSS JOIN LATERAL (
        SELECT id
        FROM {table}
        WHERE id = reference.id
            AND lease_token = reference.token
            AND next_attempt_at <= clock_timestamp()
        FOR UPDATE SKIP LOCKED
    ) AS work
)
"""

# A row whose worker was lost is taken alone: one that kills its process must not take its
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
UPDATE {table} AS work
SET status = '{held}',
    lease_token = %(lease_token)s,
    worker_id = %(worker_id)s,
    leased_until = clock_timestamp() + make_interval(secs => %(lease_seconds)s),
    attempts = work.attempts + 1,
    starts = work.starts + 1,
    next_attempt_at = NULL,
    announce_at = NULL,
    updated_at = clock_timestamp(),
"""

# The intent of an external action that comes first: what would be written next, for each by itself.
# Not where it must not be sent twice: until it is about to be sent, nobody shall say that it may
# have been. A large definition is not read here.
_OPEN_RUN = """
    open_action = CASE
        WHEN work.action_results = '[]' AND (
            SELECT
                first.action ->> 'type' = ANY(%(external_types)s)
                AND first.action ->> 'on_unknown' IS DISTINCT FROM 'fail'
                AND NOT first.action ? 'delay'
            FROM definition
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN pg_column_size(body) <= 8000 THEN body #> '{{trigger,actions,0}}'
                END AS action
            ) AS first
            WHERE definition.tenant_id = work.tenant_id AND definition.hash = work.definition_hash
        ) THEN 0
        ELSE work.open_action
    END
"""

_OPEN_ACTION = """
    open_action = CASE
        WHEN work.action_results = '[]'
            AND work.mode = 'normal'
            AND work.action_type = ANY(%(external_types)s)
            AND work.action_config ->> 'on_unknown' IS DISTINCT FROM 'fail'
            THEN 0
        ELSE work.open_action
    END
"""

_CLAIMED_RUN = """
RETURNING
    work.id,
    work.tenant_id,
    work.table_id,
    (
        SELECT owner.trashed_at IS NULL
        FROM custom_table AS owner
        WHERE owner.id = work.table_id
    ) AS table_lives,
    work.trigger_id,
    work.kind,
    work.record_id,
    work.identity,
    work.window_key,
    work.scheduled_for,
    work.definition_hash,
    work.snapshot::text,
    work.action_results::text,
    work.open_action,
    work.attempts,
    work.starts,
    work.worker_losses,
    work.depth,
    work.lease_token,
    work.created_at
"""

_CLAIMED_ID = """
RETURNING work.id
"""

_OF_DUE = """
WHERE work.id = ANY(ARRAY(SELECT id FROM due))
"""

_OF_TAKEN = """
WHERE work.id = ANY(ARRAY(SELECT id FROM taken))
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


def _offered(references: Sequence[Reference]) -> dict[str, Any]:
    return {
        "ids": [reference.id for reference in references],
        "tokens": [reference.token for reference in references],
    }


def _lease(
    worker_id: int, lease_token: UUID, lease_seconds: float, external_types: Sequence[str]
) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "lease_token": lease_token,
        "lease_seconds": lease_seconds,
        "external_types": list(external_types),
    }


_CLAIM_OFFERED = made_for("trigger_run", _OFFERED + _CLAIM + _OPEN_RUN + _OF_DUE + _CLAIMED_RUN)


def claim(
    conn: Connection,
    references: Sequence[Reference],
    *,
    worker_id: int,
    lease_token: UUID,
    lease_seconds: float,
    external_types: Sequence[str] = (),
) -> list[ClaimedRun]:
    """pending -> running: take the referenced runs that are due under the references' tokens.

    ``lease_token`` is new, one for the batch. A run that is not returned is held by somebody, not
    due, or gone: never an error.
    """
    lease = _lease(worker_id, lease_token, lease_seconds, external_types)
    with conn.cursor(row_factory=_claimed_run) as cursor:
        return cursor.execute(_CLAIM_OFFERED, _offered(references) | lease).fetchall()


_CLAIM_OFFERED_ACTIONS = made_for(
    "scheduled_action", _OFFERED + _CLAIM + _OPEN_ACTION + _OF_DUE + _CLAIMED_ID
)


def claim_actions(
    conn: Connection,
    references: Sequence[Reference],
    *,
    worker_id: int,
    lease_token: UUID,
    lease_seconds: float,
    external_types: Sequence[str] = (),
) -> list[int]:
    """pending -> processing: as ``claim``, of scheduled actions; return their ids."""
    lease = _lease(worker_id, lease_token, lease_seconds, external_types)
    return [id for (id,) in conn.execute(_CLAIM_OFFERED_ACTIONS, _offered(references) | lease)]


_STILL_OFFERED = for_both("""
SELECT work.id, work.lease_token AS token
FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS reference (id, token)
JOIN {table} AS work
    ON work.id = reference.id
    AND work.lease_token = reference.token
    AND work.next_attempt_at <= clock_timestamp()
""")


def list_offered(
    conn: Connection, references: Sequence[Reference], *, kind: WorkKind
) -> list[Reference]:
    """Return which of the references a claim would take, were their rows not locked just now."""
    with conn.cursor(row_factory=args_row(Reference)) as cursor:
        return cursor.execute(_STILL_OFFERED[kind], _offered(references)).fetchall()


_TAKE_RUN = _TAKEN + _CLAIM + _OPEN_RUN + _OF_TAKEN + _CLAIMED_RUN
_CLAIM_OLDEST = made_for("trigger_run", OLDEST_DUE + _TAKE_RUN)
_CLAIM_FAIREST = made_for("trigger_run", FAIREST_DUE + _TAKE_RUN)


def claim_due(
    conn: Connection,
    *,
    urgent: bool,
    limit: int,
    after: UUID | None,
    worker_id: int,
    lease_token: UUID,
    lease_seconds: float,
    external_types: Sequence[str] = (),
) -> list[ClaimedRun]:
    """pending -> running: take up to ``limit`` due runs; for a worker without a broker.

    Those that are ``urgent``, or the others.
    The oldest, or with ``after`` the oldest of each tenant in turn, as ``announce_batch_fairly``
    does. A run whose worker was lost comes alone.
    """
    lease = _lease(worker_id, lease_token, lease_seconds, external_types)
    parameters = {"urgent": urgent, "limit": limit, "after": after} | lease
    statement = _CLAIM_OLDEST if after is None else _CLAIM_FAIREST
    with conn.cursor(row_factory=_claimed_run) as cursor:
        return cursor.execute(statement, parameters).fetchall()


_TAKE_ACTION = _TAKEN + _CLAIM + _OPEN_ACTION + _OF_TAKEN + _CLAIMED_ID
_CLAIM_OLDEST_ACTIONS = made_for("scheduled_action", OLDEST_DUE + _TAKE_ACTION)
_CLAIM_FAIREST_ACTIONS = made_for("scheduled_action", FAIREST_DUE + _TAKE_ACTION)


def claim_due_actions(
    conn: Connection,
    *,
    urgent: bool,
    limit: int,
    after: UUID | None,
    worker_id: int,
    lease_token: UUID,
    lease_seconds: float,
    external_types: Sequence[str] = (),
) -> list[int]:
    """pending -> processing: as ``claim_due``, of scheduled actions; return their ids."""
    lease = _lease(worker_id, lease_token, lease_seconds, external_types)
    parameters = {"urgent": urgent, "limit": limit, "after": after} | lease
    statement = _CLAIM_OLDEST_ACTIONS if after is None else _CLAIM_FAIREST_ACTIONS
    return [id for (id,) in conn.execute(statement, parameters)]
