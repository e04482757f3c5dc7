"""Offering due work: stale rows are taken back, and references to due rows published.

The broker holds near-term work only. What exceeds the high water waits in the table, where it can
be seen and cancelled.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args
from uuid import UUID, uuid4

import structlog
from psycopg import Connection

from shared.domain.work import Announced, Reference, ReferenceKind, WorkKind
from shared.errors import Unavailable
from shared.lifecycle import monotonic
from shared.messaging.ports import Publisher
from shared.messaging.topology import EXECUTE, FIRE, QUEUE_OF_ROLE
from shared.observability import metrics, tracing
from shared.observability.spans import Span
from shared.observability.trace_ids import Place, Row, place_of, step_of
from shared.queries.announcements import (
    announce_batch,
    announce_batch_fairly,
    list_waits,
    unannounce,
)
from shared.queries.approved_changes import announce_changes, unannounce_changes
from shared.queries.notifications import notify_work
from shared.queries.work import recover_stale
from shared.queries.workers import count_threads, living_workers

_log = structlog.get_logger()

_RECOVER_BATCH = 500
_MEASURED_SECONDS = 5.0
_NAME_OF_ID: Mapping[WorkKind, str] = {
    "trigger_run": "run_id",
    "scheduled_action": "scheduled_action_id",
}


def recover(conn: Connection) -> Mapping[WorkKind, int]:
    """Take rows back whose lease is over or whose worker is gone; return how many wait anew.

    The others have lost their last worker and ended. Scanners do this every 2 s, and so do workers
    without a broker; twice is harmless.
    """
    try:
        runs = _recover(conn, "trigger_run")
    finally:  # what keeps one table from being swept must not keep the other
        actions = _recover(conn, "scheduled_action")
    return {"trigger_run": runs, "scheduled_action": actions}


def _recover(conn: Connection, kind: WorkKind) -> int:
    count = 0
    while True:
        with conn.transaction():
            recovered = recover_stale(conn, kind=kind, limit=_RECOVER_BATCH)
            if recovered:
                notify_work(conn)
        for row in recovered:
            _log.warning("work_recovered", status=row.status, **{_NAME_OF_ID[kind]: row.id})
        requeued = sum(row.status == "pending" for row in recovered)
        metrics.WORKER_LOSSES.inc(len(recovered))
        metrics.WORK_REQUEUED.inc(requeued)
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
class _Source:
    """A kind of rows; ``fairly``: there were more than the last batch took."""

    kind: ReferenceKind
    fairly: bool = False


def _sources() -> list[_Source]:
    return [_Source(kind=kind) for kind in get_args(ReferenceKind)]


@dataclass(slots=True, kw_only=True)
class _Lane:
    """What goes to the workers of one role; ``turns``: how often its kinds were asked for."""

    urgent: bool
    role: str
    rate: ClaimRate = field(default_factory=ClaimRate)
    sources: list[_Source] = field(default_factory=_sources)
    turns: int = 0

    @property
    def queue(self) -> str:
        """The queue that these workers consume."""
        return QUEUE_OF_ROLE[self.role]

    def take_turn(self, due: set[tuple[ReferenceKind, bool]]) -> list[_Source]:
        """Return the sources that have something due; another one comes first each time."""
        found = [source for source in self.sources if (source.kind, self.urgent) in due]
        first = self.turns % max(len(found), 1)
        self.turns += 1
        return found[first:] + found[:first]


class Announcer:
    """The scanner's announcements; used by one thread.

    Each queue has room of its own: what is urgent does not wait for scheduled work to be claimed.
    """

    def __init__(
        self, publisher: Publisher, *, batch_size: int, fire_batch: int, high_water: int
    ) -> None:
        """``batch_size``: how many rows are announced at once for a queue.

        ``high_water``: how many unclaimed references a queue of the broker is given at most.
        """
        self._publisher = publisher
        self._batch_size = batch_size
        self._fire_batch = fire_batch
        self._high_water = high_water
        self._urgent = _Lane(urgent=True, role="action-worker")
        self._scheduled = _Lane(urgent=False, role="trigger-worker")

    def room(self, conn: Connection) -> int:
        """Return how many references to scheduled work may be published now.

        Unclaimed references in a queue stay at or below the high water, and below what its living
        workers can soon take: twice their threads, or what was claimed in the last 5 s if that is
        more. 0 when the broker takes none.
        """
        return self._rooms(conn, [self._scheduled])[0]

    def measure(self) -> None:
        """Tell how many messages wait in each queue, also while there is nothing to announce."""
        self._depths()

    def announce(self, conn: Connection) -> int:
        """Announce a batch of what is due for each queue; return how many were confirmed.

        All kinds share a queue's room, each in turn first. The oldest; when there were more than
        the batch takes, each tenant in turn.
        """
        due = {(wait.kind, wait.urgent) for wait in list_waits(conn) if wait.seconds <= 0}
        lanes = [self._urgent, self._scheduled]
        rooms = self._rooms(conn, lanes)
        return sum(
            self._announce(conn, lane, due, limit=min(room, self._batch_size))
            for lane, room in zip(lanes, rooms, strict=True)
            if room
        )

    def publish(self, conn: Connection, announced: Sequence[Announced]) -> int:
        """Publish rows whose announcement is committed; return how many were confirmed.

        The announcements of the others are taken back; should that fail, their age brings them.
        """
        if not announced:
            return 0
        spans = _begin_spans(announced)
        unconfirmed = self._publisher.publish(announced)
        _end_spans(spans, unconfirmed)
        for lane in (self._urgent, self._scheduled):
            sent, lost = (
                sum(row.urgent == lane.urgent for row in rows) for rows in (announced, unconfirmed)
            )
            lane.rate.sent(sent - lost)
        confirmed = len(announced) - len(unconfirmed)
        metrics.ANNOUNCEMENTS.inc(confirmed)
        if unconfirmed:
            metrics.ANNOUNCEMENTS_REFUSED.inc(len(unconfirmed))
            _unannounce(conn, unconfirmed)
        return confirmed

    def _announce(
        self, conn: Connection, lane: _Lane, due: set[tuple[ReferenceKind, bool]], *, limit: int
    ) -> int:
        announced: list[Announced] = []
        for source in lane.take_turn(due):
            wanted = limit - len(announced)
            if wanted:
                found = _announce_batch(conn, source, urgent=lane.urgent, limit=wanted)
                source.fairly = len(found) == wanted
                announced += found
        metrics.WORK_REQUEUED.inc(sum(row.announcements > 1 for row in announced))
        return self.publish(conn, announced)

    def _rooms(self, conn: Connection, lanes: Sequence[_Lane]) -> list[int]:
        depths = self._depths()
        if depths is None:
            return [0] * len(lanes)
        threads = count_threads(conn, living_workers(conn))
        at = monotonic()
        return [
            self._room(lane, depths[lane.queue], threads.get(lane.role, 0), at) for lane in lanes
        ]

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


def _begin_spans(announced: Sequence[Announced]) -> list[tuple[Announced, Span]]:
    """Begin a span in the trace of each row."""
    if not tracing.is_on():
        return []
    return [
        (
            row,
            tracing.span(
                "announce",
                kind="producer",
                under=_place(row, row.tenant_id),
                attributes={
                    "messaging.system": "rabbitmq",
                    "messaging.destination.name": EXECUTE if row.urgent else FIRE,
                    "messaging.operation.name": "announce",
                    "messaging.operation.type": "send",
                    "duebook.announcements": row.announcements,
                },
            ),
        )
        for row in announced
        if row.tenant_id is not None
    ]


def _place(row: Announced, tenant_id: UUID) -> Place:
    own = Row(tenant_id, row.kind, row.id)
    if row.execution_id is None:
        return place_of(own)
    return step_of(own, Row(tenant_id, "workflow_execution", row.execution_id))


def _end_spans(spans: Sequence[tuple[Announced, Span]], unconfirmed: Sequence[Announced]) -> None:
    lost = {(row.kind, row.id) for row in unconfirmed} if spans else set()
    for row, span in spans:
        if (row.kind, row.id) in lost:
            span.fail("unconfirmed")
        span.end()


def _announce_batch(
    conn: Connection, source: _Source, *, urgent: bool, limit: int
) -> list[Announced]:
    kind = source.kind
    if kind == "staged_change":
        return announce_changes(conn, limit=limit, after=uuid4() if source.fairly else None)
    if source.fairly:
        return announce_batch_fairly(conn, kind=kind, urgent=urgent, limit=limit, after=uuid4())
    return announce_batch(conn, kind=kind, urgent=urgent, limit=limit)


def _unannounce(conn: Connection, announced: Sequence[Announced]) -> None:
    unannounce(conn, announced)
    changes = [
        Reference(id=row.id, token=row.token) for row in announced if row.kind == "staged_change"
    ]
    if changes:
        unannounce_changes(conn, changes)
