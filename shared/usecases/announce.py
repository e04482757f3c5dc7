"""Offering due work: stale runs are taken back, and references to due rows published.

The broker holds near-term work only. What exceeds the high water waits in the table, where it can
be seen and cancelled.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import structlog
from psycopg import Connection

from shared.domain.work import Announced
from shared.errors import Unavailable
from shared.lifecycle import monotonic
from shared.messaging.ports import Publisher
from shared.messaging.topology import EXECUTE, FIRE
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


@dataclass(slots=True, kw_only=True)
class _Lane:
    """What goes to one queue; ``fairly``: there was more than the last batch took."""

    urgent: bool
    queue: str
    rate: ClaimRate = field(default_factory=ClaimRate)
    fairly: bool = False


class Announcer:
    """The scanner's announcements; used by one thread.

    Each queue has room of its own: what is urgent does not wait for scheduled work to be claimed.
    """

    def __init__(self, publisher: Publisher, *, fire_batch: int, high_water: int) -> None:
        """``high_water``: how many unclaimed references a queue of the broker is given at most."""
        self._publisher = publisher
        self._fire_batch = fire_batch
        self._high_water = high_water
        self._urgent = _Lane(urgent=True, queue=EXECUTE)
        self._scheduled = _Lane(urgent=False, queue=FIRE)

    def room(self, conn: Connection) -> int:
        """Return how many references to scheduled work may be published now.

        Unclaimed references in a queue stay at or below the high water, and below what the living
        workers can soon take: twice their threads, or what was claimed in the last 5 s if that is
        more. 0 when the broker takes none.
        """
        return self._rooms(conn, [self._scheduled])[0]

    def announce(self, conn: Connection) -> int:
        """Announce a batch of what is due for each queue; return how many were confirmed.

        The oldest; when there were more than the batch takes, each tenant in turn.
        """
        lanes = [self._urgent, self._scheduled]
        rooms = self._rooms(conn, lanes)
        return sum(
            self._announce(conn, lane, limit=min(room, _ANNOUNCE_BATCH))
            for lane, room in zip(lanes, rooms, strict=True)
            if room
        )

    def publish(self, conn: Connection, announced: Sequence[Announced]) -> int:
        """Publish rows whose announcement is committed; return how many were confirmed.

        The announcements of the others are taken back; should that fail, their age brings them.
        """
        if not announced:
            return 0
        unconfirmed = self._publisher.publish(announced)
        for lane in (self._urgent, self._scheduled):
            sent, lost = (
                sum(row.urgent == lane.urgent for row in rows) for rows in (announced, unconfirmed)
            )
            lane.rate.sent(sent - lost)
        confirmed = len(announced) - len(unconfirmed)
        metrics.ANNOUNCEMENTS.inc(confirmed)
        if unconfirmed:
            metrics.ANNOUNCEMENTS_REFUSED.inc(len(unconfirmed))
            unannounce(conn, unconfirmed)
        return confirmed

    def _announce(self, conn: Connection, lane: _Lane, *, limit: int) -> int:
        if lane.fairly:
            announced = announce_batch_fairly(conn, urgent=lane.urgent, limit=limit, after=uuid4())
        else:
            announced = announce_batch(conn, urgent=lane.urgent, limit=limit)
        lane.fairly = len(announced) == limit
        metrics.RUNS_REQUEUED.inc(sum(row.announcements > 1 for row in announced))
        return self.publish(conn, announced)

    def _rooms(self, conn: Connection, lanes: Sequence[_Lane]) -> list[int]:
        depths = self._depths()
        if depths is None:
            return [0] * len(lanes)
        threads = count_threads(conn, living_workers(conn))
        at = monotonic()
        return [self._room(lane, depths[lane.queue], threads, at) for lane in lanes]

    def _room(self, lane: _Lane, messages: int, threads: int, at: float) -> int:
        waiting = messages * self._fire_batch
        claimed = lane.rate.measure(waiting=waiting, at=at)
        return max(0, min(self._high_water, max(2 * threads, claimed)) - waiting)

    def _depths(self) -> dict[str, int] | None:
        """Return how many messages wait in each queue; None when the broker takes none."""
        if not self._publisher.ready():
            return None
        try:
            depths = self._publisher.depths()
        except Unavailable as error:
            _log.warning("queues_not_answered", reason=error.message)
            return None
        for queue, depth in depths.items():
            metrics.QUEUE_DEPTH.labels(queue).set(depth)
        return depths
