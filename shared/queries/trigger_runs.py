"""Runs in the hands of people: retried, cancelled, deleted, and deleted by age.

How they are listed is in ``run_lists``, their births are in ``new_runs``, a worker's moves in
``claims`` and ``work``.
"""

from datetime import datetime

from psycopg import Connection
from psycopg.errors import UniqueViolation

from shared.domain.records import CustomTable
from shared.errors import Conflict
from shared.queries.run_lists import STALE_AFTER, RunFilter, filter_values, pending_clauses

# The token stays until the next claim: nobody has begun anew, and a late ok still counts. What
# failed may end well this time, also in actions that the run had gone on past.
_REARM = """
UPDATE trigger_run
SET status = 'pending',
    action_results = coalesce(
        (
            SELECT jsonb_agg(
                CASE
                    WHEN receipt -> 'ok' = 'false' THEN receipt || '{"transient": true}'
                    ELSE receipt
                END
                ORDER BY position
            )
            FROM jsonb_array_elements(action_results) WITH ORDINALITY AS known (receipt, position)
        ),
        '[]'
    ),
    urgent = true,
    attempts = 0,
    worker_losses = 0,
    error = NULL,
    worker_id = NULL,
    leased_until = NULL,
    finished_at = NULL,
    next_attempt_at = %(now)s,
    announce_at = %(now)s,
    updated_at = %(now)s
WHERE id = %(run_id)s
    AND table_id = %(table_id)s
    AND (
        status IN ('failed', 'pending')
        OR (status = 'running' AND updated_at < %(stale_before)s)
    )
"""


def rearm(conn: Connection, table: CustomTable, run_id: int, *, now: datetime) -> bool:
    """failed | pending | stale running -> pending: retry by hand, with a fresh budget; notify.

    False: there is no such run, or its status does not allow it. Raises Conflict
    ``trigger_has_active_run`` when another run of the same clock trigger is active.
    """
    values = {
        "table_id": table.id,
        "run_id": run_id,
        "stale_before": now - STALE_AFTER,
        "now": now,
    }
    try:
        with conn.transaction():
            return conn.execute(_REARM, values).rowcount == 1
    except UniqueViolation as error:
        raise Conflict(
            "another run of this trigger is active", code="trigger_has_active_run"
        ) from error


_CANCELLED = """
UPDATE trigger_run
SET status = 'failed',
    error = 'cancelled',
    next_attempt_at = NULL,
    announce_at = NULL,
    finished_at = %(now)s,
    updated_at = %(now)s
"""

_ONE = """
WHERE id = %(run_id)s AND table_id = %(table_id)s AND status = 'pending'
"""

_CANCEL = _CANCELLED + _ONE


def cancel(conn: Connection, table: CustomTable, run_id: int, *, now: datetime) -> bool:
    """pending -> failed: end a run that nobody has started; False when it is not pending."""
    values = {"table_id": table.id, "run_id": run_id, "now": now}
    return conn.execute(_CANCEL, values).rowcount == 1


_CHOSEN = """
WHERE id = ANY(ARRAY(
    SELECT id
    FROM trigger_run
"""

_LOCKED = """
    ORDER BY id
    LIMIT %(limit)s
    FOR UPDATE
))
    AND status = 'pending'
"""


def cancel_matching(
    conn: Connection, table: CustomTable, filter: RunFilter, *, limit: int, now: datetime
) -> int:
    """pending -> failed: end up to ``limit`` that the filter finds, the oldest; return how many.

    Only pending ones, whatever status the filter names.
    """
    statement = _CANCELLED + _CHOSEN + pending_clauses(filter) + _LOCKED
    values = filter_values(table, filter) | {"limit": limit, "now": now}
    return conn.execute(statement, values, prepare=False).rowcount


_DELETE_RUN = """
DELETE FROM trigger_run
WHERE id = %(run_id)s AND table_id = %(table_id)s AND status IN ('done', 'failed')
"""


def delete_run(conn: Connection, table: CustomTable, run_id: int) -> bool:
    """Delete a run that has ended; False when it has not. The ledger keeps its identity."""
    return conn.execute(_DELETE_RUN, {"table_id": table.id, "run_id": run_id}).rowcount == 1


_DELETE_FINISHED = """
WITH old AS MATERIALIZED (
    SELECT id
    FROM trigger_run
    WHERE finished_at < %(before)s
    ORDER BY finished_at, id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM trigger_run AS run
USING old
WHERE run.id = old.id
"""


def delete_finished(conn: Connection, *, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` runs that ended before then, the oldest; return how many went."""
    return conn.execute(_DELETE_FINISHED, {"before": before, "limit": limit}).rowcount
