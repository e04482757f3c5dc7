"""What is old goes, in small batches: what ended, remembered answers, workers long gone."""

from datetime import datetime, timedelta

import structlog
from psycopg import Connection

from shared.queries import action_moves, staged_changes, trigger_runs
from shared.queries.events import delete_events
from shared.queries.executions import delete_executions
from shared.queries.idempotency import delete_answers
from shared.queries.workers import delete_old_workers, living_workers

_log = structlog.get_logger()

_BATCH = 500
_ANSWERS_KEPT = timedelta(days=1)
_WORKERS_KEPT = timedelta(days=7)


def delete_old(conn: Connection, *, now: datetime, run_retention_days: int) -> bool:
    """Delete one batch of each kind; False when nothing more is old.

    Runs, scheduled actions and staged changes that ended ``run_retention_days`` ago (a change when
    the work that staged it is gone, one that waits for its review never), events taken so long ago,
    answers kept for an Idempotency-Key older than a day, rows of workers that are gone, older than
    a week. The identities of runs stay in the ledger, and the steps of an execution as long as it
    goes on; without steps it goes itself, and its links stay.
    """
    ended_before = now - timedelta(days=run_retention_days)
    deleted = {
        "runs": trigger_runs.delete_finished(conn, before=ended_before, limit=_BATCH),
        "actions": action_moves.delete_finished(conn, before=ended_before, limit=_BATCH),
        "changes": staged_changes.delete_finished(conn, before=ended_before, limit=_BATCH),
        "executions": delete_executions(conn, before=ended_before, limit=_BATCH),
        "events": delete_events(conn, before=ended_before, limit=_BATCH),
        "answers": delete_answers(conn, before=now - _ANSWERS_KEPT, limit=_BATCH),
        "workers": delete_old_workers(
            conn, before=now - _WORKERS_KEPT, living=living_workers(conn), limit=_BATCH
        ),
    }
    if any(deleted.values()):
        _log.info("old_rows_deleted", **deleted)
    return _BATCH in deleted.values()
