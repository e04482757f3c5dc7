"""An approved change is applied: the write, its event runs and its end are one transaction.

Of two that try, the second finds the row locked or ended. Who dies before the commit has done
nothing: the change is announced again by its age.
"""

from datetime import datetime

import psycopg
import structlog
from psycopg import Connection

from shared.domain.runs import MAX_ERROR, clean_text
from shared.domain.staged_changes import ApprovedChange, ChangeStatus
from shared.effects.staged_changes import apply
from shared.errors import AppError, Unavailable
from shared.observability import metrics
from shared.queries.approved_changes import lock_approved, mark_applied, mark_failed

_log = structlog.get_logger()

# Connection, lock limit, deadlock, a server that takes no writes: the database's passing troubles.
_PASSING = (psycopg.OperationalError, psycopg.InternalError, Unavailable)


def apply_change(conn: Connection, change: ApprovedChange, *, now: datetime) -> None:
    """Apply a change once; never raises.

    It ends, or stays approved after a passing trouble, and is announced again by its age.
    """
    try:
        status = _apply(conn, change, now=now)
    except _PASSING as error:
        _log.warning("change_interrupted", reason=str(error))
        metrics.RETRIES.labels(kind="staged_change", type="").inc()
    except Exception as error:
        _log.exception("change_crashed")
        _give_up(conn, change, error, now=now)
    else:
        _tell(change, status)


def _apply(conn: Connection, change: ApprovedChange, *, now: datetime) -> ChangeStatus | None:
    """Return how the change has ended; None: another applies it just now, or has ended it."""
    id, token = change.id, change.lease_token
    with conn.transaction():
        locked = lock_approved(conn, id, token)
        if locked is None:
            return None
        try:
            with conn.transaction():
                record = apply(conn, locked, now=now)
        except Unavailable:
            raise
        except AppError as error:
            mark_failed(conn, id, token, error=_text(error.message), now=now)
            return "failed"
        mark_applied(conn, id, token, record_id=record.id, now=now)
        return "applied"


def _give_up(conn: Connection, change: ApprovedChange, error: Exception, *, now: datetime) -> None:
    """End a change that a bug, or the database, does not let be written: it would come for ever."""
    reason = _text(str(error) or type(error).__name__)
    try:
        with conn.transaction():
            mark_failed(conn, change.id, change.lease_token, error=reason, now=now)
    except psycopg.Error as trouble:
        _log.warning("change_interrupted", reason=str(trouble))
    else:
        _tell(change, "failed")


def _text(message: str) -> str:
    return clean_text(message, MAX_ERROR)


def _tell(change: ApprovedChange, status: ChangeStatus | None) -> None:
    if status is None:
        metrics.CLAIMS_REFUSED.inc()
        return
    metrics.WORK_OUTCOMES.labels(kind="staged_change", status=status).inc()
    if status == "failed":
        _log.warning("change_failed")
    else:
        _log.debug("change_applied")
