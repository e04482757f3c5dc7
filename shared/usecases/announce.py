"""Offering due work: stale runs are taken back, and references to due rows published.

The broker holds near-term work only. What exceeds the high water waits in the table, where it can
be seen and cancelled.
"""

from collections import deque
from collections.abc import Sequence
from uuid import uuid4

import structlog
from psycopg import Connection

from shared.domain.work import Announced
from shared.errors import Unavailable
from shared.lifecycle import monotonic
from shared.messaging.ports import Publisher
from shared.messaging.topology import WORK_QUEUES
from shared.observability import metrics
from shared.queries.announcements import announce_batch, announce_batch_fairly, unannounce
from shared.queries.notifications import notify_work
from shared.queries.work import recover_stale
from shared.queries.workers import count_threads, living_workers

_log = structlog.get_logger()

_ANNOUNCE_BATCH = 1000
_RECOVER_BATCH = 500
_MEASURED_SECONDS = 5.0


def recover(conn: Connection) -> int:
    """Take runs back whose lease is over or whose worker is gone; return how many wait anew.

    The others have lost their last worker and ended. Scanners do this every 2 s, and so do workers
    without a broker; twice is harmless.
    """
    count = 0
    while True:
        with conn.transaction():
            recovered = recover_stale(conn, limit=_RECOVER_BATCH)
            if recovered:
                notify_work(conn)
        for run in recovered:
            _log.warning("run_recovered", run_id=run.id, status=run.status)
        requeued = sum(run.status == "pending" for run in recovered)
        metrics.WORKER_LOSSES.inc(len(recovered))
        metrics.RUNS_REQUEUED.inc(requeued)
        count += requeued
        if len(recovered) < _RECOVER_BATCH:
            return count


class ClaimRate:
    """How many references were claimed in the last 5 seconds, from what was sent and what waits."""

    def __init__(self) -> None:
        self._sent = 0
        self._claimed: deque[tuple[float, int]] = deque()

    def sent(self, count: int) -> None:
        """Note references that were published."""
        self._sent += count

    def measure(self, *, waiting: int, at: float) -> int:
        """Return the rate when ``waiting`` references are unclaimed at this monotonic second.

        Other scanners publish too, so it is an estimate; it is never negative.
        """
        self._claimed.append((at, self._sent - waiting))
        while self._claimed[0][0] < at - _MEASURED_SECONDS:
            self._claimed.popleft()
        return max(0, self._claimed[-1][1] - self._claimed[0][1])


class Announcer:
    """The scanner's announcements; used by one thread."""

    def __init__(self, publisher: Publisher, *, fire_batch: int, high_water: int) -> None:
        """``high_water``: how many unclaimed references the broker is given at most."""
        self._publisher = publisher
        self._fire_batch = fire_batch
        self._high_water = high_water
        self._rate = ClaimRate()
        self._fairly = False

    def room(self, conn: Connection) -> int:
        """Return how many references may be published now, 0 when the broker takes none.

        Unclaimed references stay at or below the high water, and below what the living workers can
        soon take: twice their threads, or what was claimed in the last 5 s if that is more.
        """
        if not self._publisher.ready():
            return 0
        try:
            waiting = self._waiting()
        except Unavailable as error:
            _log.warning("queues_not_answered", reason=error.message)
            return 0
        claimed = self._rate.measure(waiting=waiting, at=monotonic())
        threads = count_threads(conn, living_workers(conn))
        return max(0, min(self._high_water, max(2 * threads, claimed)) - waiting)

    def announce(self, conn: Connection) -> int:
        """Announce one batch of what is due and return how many references were confirmed.

        The oldest; when there were more than the batch takes, each tenant in turn.
        """
        limit = min(self.room(conn), _ANNOUNCE_BATCH)
        if limit == 0:
            return 0
        if self._fairly:
            announced = announce_batch_fairly(conn, limit=limit, after=uuid4())
        else:
            announced = announce_batch(conn, limit=limit)
        self._fairly = len(announced) == limit
        metrics.RUNS_REQUEUED.inc(sum(row.announcements > 1 for row in announced))
        return self.publish(conn, announced)

    def publish(self, conn: Connection, announced: Sequence[Announced]) -> int:
        """Publish rows whose announcement is committed; return how many were confirmed.

        The announcements of the others are taken back; should that fail, their age brings them.
        """
        if not announced:
            return 0
        unconfirmed = self._publisher.publish(announced)
        confirmed = len(announced) - len(unconfirmed)
        self._rate.sent(confirmed)
        metrics.ANNOUNCEMENTS.inc(confirmed)
        if unconfirmed:
            metrics.ANNOUNCEMENTS_REFUSED.inc(len(unconfirmed))
            unannounce(conn, unconfirmed)
        return confirmed

    def _waiting(self) -> int:
        depths = self._publisher.depths()
        for queue, depth in depths.items():
            metrics.QUEUE_DEPTH.labels(queue).set(depth)
        return sum(depths[queue] for queue in WORK_QUEUES) * self._fire_batch
