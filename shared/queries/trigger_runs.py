"""Runs in the hands of people: listed, retried, cancelled, deleted, and deleted by age.

Their births are in ``new_runs``, a worker's moves in ``claims`` and ``work``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString

from psycopg import Connection
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row, scalar_row

from shared.domain.records import CustomTable
from shared.domain.runs import STALE_SECONDS, Run, RunStatus
from shared.errors import Conflict, NotFound

_STALE_AFTER = timedelta(seconds=STALE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of a table; None does not restrict.

    ``stuck`` is failed, or running and untouched for 300 s. The bounds are on ``created_at``:
    ``from_at`` belongs to the range, ``to_at`` does not.
    """

    status: RunStatus | Literal["stuck"] | None = None
    trigger_id: str | None = None
    record_id: int | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


_COLUMNS = """
SELECT
    id,
    tenant_id,
    table_id,
    trigger_id,
    kind,
    record_id,
    identity,
    window_key,
    scheduled_for,
    status,
    attempts,
    starts,
    worker_losses,
    depth,
    next_attempt_at,
    leased_until,
    definition_hash,
    snapshot,
    action_results,
    error,
    created_at,
    updated_at,
    finished_at
FROM trigger_run
"""

_BY_ID = """
WHERE id = %(run_id)s AND table_id = %(table_id)s
"""

_GET_RUN = _COLUMNS + _BY_ID


def get_run(conn: Connection, table: CustomTable, run_id: int) -> Run:
    """Return a run of the table; raises NotFound ``run_not_found``."""
    with conn.cursor(row_factory=class_row(Run)) as cursor:
        parameters = {"table_id": table.id, "run_id": run_id}
        found = cursor.execute(_GET_RUN, parameters).fetchone()
    if found is None:
        raise NotFound(f"run {run_id} does not exist", code="run_not_found")
    return found


# One clause for each filter given: a plan for optional ones could use none of the indexes. Never
# prepared: a plan for a table of average size walks all runs to list those of a small one. The
# tenant opens the index of pending runs.
_OF_TABLE = """
WHERE table_id = %(table_id)s
"""
_PENDING = "    AND tenant_id = %(tenant_id)s AND status = 'pending'\n"
_RUNNING = "    AND status = 'running'\n"
_DONE = "    AND status = 'done'\n"
_FAILED = "    AND status = 'failed'\n"
_STALE = "    AND status = 'running' AND updated_at < %(stale_before)s\n"
_OF_TRIGGER = "    AND trigger_id = %(trigger_id)s\n"
_OF_RECORD = "    AND record_id = %(record_id)s\n"
_FROM = "    AND created_at >= %(from_at)s\n"
_TO = "    AND created_at < %(to_at)s\n"
_BEFORE = "    AND id < %(before)s\n"
_NEWEST_FIRST = """
ORDER BY id DESC
LIMIT %(limit)s
"""

# Each is a listing of its own, with an index of its own.
_BY_STATUS: dict[RunStatus | Literal["stuck"] | None, tuple[LiteralString, ...]] = {
    None: ("",),
    "pending": (_PENDING,),
    "running": (_RUNNING,),
    "done": (_DONE,),
    "failed": (_FAILED,),
    "stuck": (_FAILED, _STALE),
}


def _clauses(filter: RunFilter, *, before: int | None) -> list[str]:
    """Return the clauses of the listings that together are the filter's."""
    parts: list[LiteralString] = []
    if filter.trigger_id is not None:
        parts.append(_OF_TRIGGER)
    if filter.record_id is not None:
        parts.append(_OF_RECORD)
    if filter.from_at is not None:
        parts.append(_FROM)
    if filter.to_at is not None:
        parts.append(_TO)
    if before is not None:
        parts.append(_BEFORE)
    return [
        "".join([_OF_TABLE, status, *parts, _NEWEST_FIRST]) for status in _BY_STATUS[filter.status]
    ]


def _parameters(
    table: CustomTable, filter: RunFilter, *, before: int | None, limit: int, now: datetime
) -> dict[str, Any]:
    return {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "trigger_id": filter.trigger_id,
        "record_id": filter.record_id,
        "from_at": filter.from_at,
        "to_at": filter.to_at,
        "stale_before": now - _STALE_AFTER,
        "before": before,
        "limit": limit,
    }


def list_runs(
    conn: Connection,
    table: CustomTable,
    filter: RunFilter,
    *,
    before: int | None = None,
    limit: int,
    now: datetime,
) -> list[Run]:
    """Return up to ``limit`` runs of the table, the newest first, those with ids below ``before``.

    The next page is before the last one's id.
    """
    parameters = _parameters(table, filter, before=before, limit=limit, now=now)
    found: list[Run] = []
    with conn.cursor(row_factory=class_row(Run)) as cursor:
        for clauses in _clauses(filter, before=before):
            found += cursor.execute(_COLUMNS + clauses, parameters, prepare=False)
    return sorted(found, key=lambda run: run.id, reverse=True)[:limit]


_IDS = """
SELECT id
FROM trigger_run
"""


def list_run_ids(
    conn: Connection,
    table: CustomTable,
    filter: RunFilter,
    *,
    before: int | None = None,
    limit: int,
    now: datetime,
) -> list[int]:
    """Return the ids of what ``list_runs`` would return."""
    parameters = _parameters(table, filter, before=before, limit=limit, now=now)
    found: list[int] = []
    with conn.cursor(row_factory=scalar_row) as cursor:
        for clauses in _clauses(filter, before=before):
            found += cursor.execute(_IDS + clauses, parameters, prepare=False)
    return sorted(found, reverse=True)[:limit]


_COUNT_FAILED = "SELECT count(*) FROM trigger_run WHERE status = 'failed'"


def count_failed(conn: Connection) -> int:
    """Return how many runs of all tables stand as failed."""
    row = conn.execute(_COUNT_FAILED).fetchone()
    return row[0] if row else 0


_COUNT_STALE = """
SELECT count(*)
FROM trigger_run
WHERE status = 'running' AND updated_at < %(stale_before)s
"""


def count_stale(conn: Connection, *, now: datetime) -> int:
    """Return how many running runs of all tables nobody has touched for 300 s."""
    row = conn.execute(_COUNT_STALE, {"stale_before": now - _STALE_AFTER}).fetchone()
    return row[0] if row else 0


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
    parameters = {
        "table_id": table.id,
        "run_id": run_id,
        "stale_before": now - _STALE_AFTER,
        "now": now,
    }
    try:
        with conn.transaction():
            return conn.execute(_REARM, parameters).rowcount == 1
    except UniqueViolation as error:
        raise Conflict(
            "another run of this trigger is active", code="trigger_has_active_run"
        ) from error


_CANCEL = """
UPDATE trigger_run
SET status = 'failed',
    error = 'cancelled',
    next_attempt_at = NULL,
    announce_at = NULL,
    finished_at = %(now)s,
    updated_at = %(now)s
WHERE id = %(run_id)s AND table_id = %(table_id)s AND status = 'pending'
"""


def cancel(conn: Connection, table: CustomTable, run_id: int, *, now: datetime) -> bool:
    """pending -> failed: end a run that nobody has started; False when it is not pending."""
    parameters = {"table_id": table.id, "run_id": run_id, "now": now}
    return conn.execute(_CANCEL, parameters).rowcount == 1


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
