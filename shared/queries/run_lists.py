"""Runs as people see them: one, pages of them by a filter, and how many want somebody's eyes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString

from psycopg import Connection
from psycopg.rows import class_row, scalar_row

from shared.domain.columns import size_of
from shared.domain.records import CustomTable
from shared.domain.runs import STALE_SECONDS, Run, RunStatus
from shared.errors import NotFound
from shared.queries.pages import Page, id_of, read_page

STALE_AFTER = timedelta(seconds=STALE_SECONDS)


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
        values = {"table_id": table.id, "run_id": run_id}
        found = cursor.execute(_GET_RUN, values).fetchone()
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


def _given(filter: RunFilter) -> LiteralString:
    """Return the clauses of what the filter names beside a status."""
    parts: list[LiteralString] = []
    if filter.trigger_id is not None:
        parts.append(_OF_TRIGGER)
    if filter.record_id is not None:
        parts.append(_OF_RECORD)
    if filter.from_at is not None:
        parts.append(_FROM)
    if filter.to_at is not None:
        parts.append(_TO)
    return "".join(parts)


def _clauses(
    filter: RunFilter, *, before: int | None, but: LiteralString = ""
) -> list[LiteralString]:
    """Return the clauses of the listings that together are the filter's."""
    behind = "" if before is None else _BEFORE
    return [
        _OF_TABLE + status + _given(filter) + but + behind + _NEWEST_FIRST
        for status in _BY_STATUS[filter.status]
    ]


def _list_values(
    table: CustomTable, filter: RunFilter, *, before: int | None, limit: int, now: datetime
) -> dict[str, Any]:
    values = {"stale_before": now - STALE_AFTER, "before": before, "limit": limit}
    return filter_values(table, filter) | values


def pending_clauses(filter: RunFilter) -> LiteralString:
    """Return the WHERE of a table's pending runs that the filter finds, whatever its status."""
    return _OF_TABLE + _PENDING + _given(filter)


def filter_values(table: CustomTable, filter: RunFilter) -> dict[str, Any]:
    """Return the parameters of a filter's clauses."""
    return {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "trigger_id": filter.trigger_id,
        "record_id": filter.record_id,
        "from_at": filter.from_at,
        "to_at": filter.to_at,
    }


_BATCH = 100


def list_runs(
    conn: Connection,
    table: CustomTable,
    filter: RunFilter,
    *,
    before: int | None = None,
    limit: int,
    now: datetime,
) -> Page[Run]:
    """Return up to ``limit`` runs of the table, the newest first, those with ids below ``before``.

    Fewer when their rows are large: one call reads 8 million characters at most.
    """

    def read(before: int | None, limit: int) -> list[Run]:
        return _next_runs(conn, table, filter, before=before, limit=limit, now=now)

    return read_page(
        read,
        after=before,
        limit=limit,
        size=lambda run: size_of(run.snapshot or {}),
        place=id_of,
        batch_size=_BATCH,
    )


def _next_runs(
    conn: Connection,
    table: CustomTable,
    filter: RunFilter,
    *,
    before: int | None,
    limit: int,
    now: datetime,
) -> list[Run]:
    values = _list_values(table, filter, before=before, limit=limit, now=now)
    found: list[Run] = []
    with conn.cursor(row_factory=class_row(Run)) as cursor:
        for clauses in _clauses(filter, before=before):
            found += cursor.execute(_COLUMNS + clauses, values, prepare=False)
    return sorted(found, key=lambda run: run.id, reverse=True)[:limit]


_IDS = """
SELECT id
FROM trigger_run
"""
_NOT_CANCELLED = "    AND error IS DISTINCT FROM 'cancelled'\n"


def list_run_ids(
    conn: Connection,
    table: CustomTable,
    filter: RunFilter,
    *,
    before: int | None = None,
    limit: int,
    now: datetime,
) -> list[int]:
    """Return the ids of what ``list_runs`` would return, but for what somebody has cancelled."""
    values = _list_values(table, filter, before=before, limit=limit, now=now)
    found: list[int] = []
    with conn.cursor(row_factory=scalar_row) as cursor:
        for clauses in _clauses(filter, before=before, but=_NOT_CANCELLED):
            found += cursor.execute(_IDS + clauses, values, prepare=False)
    return sorted(found, reverse=True)[:limit]


_COUNT = """
SELECT count(*)
FROM trigger_run
"""


def count_pending(conn: Connection, table: CustomTable, filter: RunFilter) -> int:
    """Return how many pending runs of the table the filter finds, whatever its status."""
    statement = _COUNT + pending_clauses(filter)
    row = conn.execute(statement, filter_values(table, filter), prepare=False).fetchone()
    return row[0] if row else 0


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
    row = conn.execute(_COUNT_STALE, {"stale_before": now - STALE_AFTER}).fetchone()
    return row[0] if row else 0
