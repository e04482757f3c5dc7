"""The due pass, between ticks: what the due index and the clock triggers' next looks point at.

The same evaluator, ledger and inserts as the tick's; the tick's walk stays, as the audit.
"""

from dataclasses import dataclass
from datetime import datetime

import structlog
from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.observability import metrics
from shared.queries.due_tables import next_look_at
from shared.queries.due_values import next_fire_at
from shared.usecases.due_clocks import fire_due_clocks
from shared.usecases.due_dates import fire_due_dates
from shared.usecases.retrying import retried

_log = structlog.get_logger()

LIMIT = 1000
_CLOCK_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePassResult:
    """What a pass did.

    ``references`` are the runs it made, to be published if they are born announced. ``more``:
    another pass is wanted at once, and ``fairly`` is to be given to it.
    """

    looked_at: int
    references: tuple[Reference, ...]
    more: bool
    fairly: bool


def due_pass(
    conn: Connection,
    *,
    fairly: bool = False,
    limit: int = LIMIT,
    announced: bool = False,
    now: datetime | None = None,
) -> DuePassResult:
    """Look at what is due at ``now`` (None: the server's): date values and clock triggers.

    At most ``limit`` date values, the oldest; ``fairly``, after a pass that found as many, the
    oldest of each tenant in turn. ``announced`` as in ``tick``. What fails is logged and counted,
    and stops nothing else. No transaction may be open.
    """
    now = server_now(conn) if now is None else now
    dates, from_dates = _dates(conn, fairly=fairly, limit=limit, announced=announced, now=now)
    clocks, from_clocks = fire_due_clocks(conn, limit=_CLOCK_LIMIT, announced=announced, now=now)
    backlog = dates == limit
    return DuePassResult(
        looked_at=dates + clocks,
        references=(*from_dates, *from_clocks),
        # A fair pass may come back short although more is due: then the oldest are asked again.
        more=backlog or fairly or clocks > 0,
        fairly=backlog,
    )


def _dates(
    conn: Connection, *, fairly: bool, limit: int, announced: bool, now: datetime
) -> tuple[int, list[Reference]]:
    try:
        return retried(
            lambda: fire_due_dates(conn, fairly=fairly, limit=limit, announced=announced, now=now)
        )
    except Exception as error:
        if conn.closed:
            raise
        metrics.TICK_FAILURES.labels("due_dates").inc()
        _log.exception("due_dates_failed", reason=str(error))
        return 0, []


def next_due_at(conn: Connection) -> datetime | None:
    """Return when the next pass is worth while, also in the past; None while nothing waits.

    What stays due after a pass is held by another session just now: wait a little.
    """
    instants = [at for at in (next_fire_at(conn), next_look_at(conn)) if at is not None]
    return min(instants, default=None)
