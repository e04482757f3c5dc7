"""Runs in the hands of a moderator: retried and cancelled, one or many, deleted."""

from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.runs import Run, retry_refusal
from shared.domain.work import MAX_CANCELLED, CancelCounts
from shared.errors import Conflict
from shared.queries import trigger_runs
from shared.queries.notifications import notify_work
from shared.queries.run_lists import RunFilter, count_pending, get_run, list_run_ids
from shared.queries.trigger_runs import rearm


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryCounts:
    """What a bulk retry did; ``skipped`` were found and may not be retried."""

    retried: int
    skipped: int


def retry_run(conn: Connection, table: CustomTable, run_id: int, *, now: datetime) -> Run:
    """Queue a failed, pending or stale running run again, with a fresh budget; return it.

    It keeps identity, frozen definition and ok receipts. Raises NotFound, Conflict
    ``run_not_retryable``, and ``trigger_has_active_run`` while another run of the same clock
    trigger is active.
    """
    with conn.transaction():
        rearmed = rearm(conn, table, run_id, now=now)
        run = get_run(conn, table, run_id)
        if not rearmed:
            raise Conflict(retry_refusal(run.status), code="run_not_retryable")
        notify_work(conn)
        return run


def retry_runs(
    conn: Connection, table: CustomTable, filter: RunFilter, *, limit: int, now: datetime
) -> RetryCounts:
    """Retry up to ``limit`` runs that the filter finds, the newest first, each as ``retry_run``.

    What was cancelled stays so: somebody did not want it, maybe thousands at once.
    """
    run_ids = list_run_ids(conn, table, filter, limit=limit, now=now)
    with conn.transaction():
        retried = sum(_is_rearmed(conn, table, run_id, now=now) for run_id in run_ids)
        if retried:
            notify_work(conn)
    return RetryCounts(retried=retried, skipped=len(run_ids) - retried)


def _is_rearmed(conn: Connection, table: CustomTable, run_id: int, *, now: datetime) -> bool:
    try:
        return rearm(conn, table, run_id, now=now)
    except Conflict:
        return False


def cancel_run(conn: Connection, table: CustomTable, run_id: int, *, now: datetime) -> Run:
    """End a pending run as failed, with the error ``cancelled``, and return it.

    Its identity stays consumed. Raises NotFound, Conflict ``run_not_pending``.
    """
    with conn.transaction():
        cancelled = trigger_runs.cancel(conn, table, run_id, now=now)
        run = get_run(conn, table, run_id)
        if not cancelled:
            message = f"run is {run.status}; only pending runs can be cancelled"
            raise Conflict(message, code="run_not_pending")
        return run


def cancel_runs(
    conn: Connection, table: CustomTable, filter: RunFilter, *, dry_run: bool, now: datetime
) -> CancelCounts:
    """End the pending runs that a filter finds, up to 10,000 of them; a dry run only counts.

    Their identities stay consumed.
    """
    with conn.transaction():
        matched = count_pending(conn, table, filter)
        if dry_run:
            return CancelCounts(matched=matched, cancelled=0)
        cancelled = trigger_runs.cancel_matching(conn, table, filter, limit=MAX_CANCELLED, now=now)
        return CancelCounts(matched=max(matched, cancelled), cancelled=cancelled)


def delete_run(conn: Connection, table: CustomTable, run_id: int) -> None:
    """Delete a run that has ended; the ledger keeps its identity, so that nothing fires again.

    Raises NotFound, Conflict ``run_not_ended``.
    """
    with conn.transaction():
        if not trigger_runs.delete_run(conn, table, run_id):
            run = get_run(conn, table, run_id)
            message = f"run is {run.status}; only done/failed runs can be deleted"
            raise Conflict(message, code="run_not_ended")
