"""What is old goes, in small batches: ended runs, remembered answers, workers long gone."""

from datetime import datetime, timedelta

import structlog
from psycopg import Connection

from shared.queries.idempotency import delete_answers
from shared.queries.trigger_runs import delete_finished
from shared.queries.workers import delete_old_workers, living_workers

_log = structlog.get_logger()

_BATCH = 500
_ANSWERS_KEPT = timedelta(days=1)
_WORKERS_KEPT = timedelta(days=7)


def delete_old(conn: Connection, *, now: datetime, run_retention_days: int) -> bool:
    """Delete one batch of each kind; False when nothing more is old.

    Ended runs older than ``run_retention_days`` (their identities stay in the ledger), answers kept
    for an Idempotency-Key older than a day, rows of workers that are gone, older than a week.
    """
    runs_before = now - timedelta(days=run_retention_days)
    deleted = {
        "runs": delete_finished(conn, before=runs_before, limit=_BATCH),
        "answers": delete_answers(conn, before=now - _ANSWERS_KEPT, limit=_BATCH),
        "workers": delete_old_workers(
            conn, before=now - _WORKERS_KEPT, living=living_workers(conn), limit=_BATCH
        ),
    }
    if any(deleted.values()):
        _log.info("old_rows_deleted", **deleted)
    return _BATCH in deleted.values()
