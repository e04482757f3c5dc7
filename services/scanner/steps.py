"""What the scanner does, one short step at a time; each step says when the next is wanted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from psycopg import Connection

from services.scanner.loop import Part
from services.scanner.transactions import TransactionWatch
from shared.db.clock import server_now
from shared.domain.work import Announced, Reference
from shared.lifecycle import monotonic
from shared.observability import metrics, tracing
from shared.observability.host_clock import compare
from shared.observability.spans import Span
from shared.observability.trace_ids import Row
from shared.queries import action_lists, run_lists, staged_changes
from shared.queries.announcements import (
    count_due,
    count_running,
    next_announcement_at,
    silent_since,
)
from shared.queries.due_tables import list_tables_behind
from shared.usecases import due_pass
from shared.usecases.announce import Announcer, recover
from shared.usecases.retention import delete_old
from shared.usecases.scan_table import Turn
from shared.usecases.tick import TURN_SECONDS, TickResult, round_of_ticks, tick, turns
from shared.usecases.unlock_wait import sweep_clicks
from shared.usecases.watch_triggers import TriggerWatch

# A look this often finds what nobody told of.
_SWEEP_SECONDS = 2.0
_RETENTION_SECONDS = 3600.0
_MEASURE_SECONDS = 15.0
_TABLES_A_STEP = 5
_CLICKS_A_STEP = 200
_COUNTED_AT_MOST = 100_000
_LISTS = {"trigger_run": run_lists, "scheduled_action": action_lists}


class Scanner:
    """The steps of one scanner; used by one thread."""

    def __init__(
        self, announcer: Announcer | None, *, round_seconds: int, run_retention_days: int
    ) -> None:
        """``announcer``: None without a broker; then workers find the rows themselves."""
        self._announcer = announcer
        self._run_retention_days = run_retention_days
        self._round_seconds = round_seconds
        self._round_began_at = self._last_round_began_at = monotonic()
        self._ticks: Iterator[TickResult] | None = None
        self._ticks_conn: Connection | None = None
        self._behind: list[Turn] = []
        self._clicks_after = 0
        self._backlog = False
        self._fairly = False
        self._triggers = TriggerWatch()
        self._transactions = TransactionWatch()

    def parts(self) -> Sequence[Part]:
        """Return the parts in the order in which they get their turns."""
        parts = [
            Part(name="sweep", step=self.sweep),
            Part(name="clicks", step=self.unlock_clicked),
            Part(name="due", step=self.look_at_due, woken=True),
            Part(name="catch_up", step=self.catch_up, woken=True),
            Part(name="round", step=self.go_round),
            Part(name="retention", step=self.delete_old),
            Part(name="measure", step=self.measure),
            Part(name="watch", step=self.watch, wanted_at=monotonic() + self._round_seconds),
        ]
        if self._announcer:
            parts.append(Part(name="announce", step=self.announce, woken=True))
        return parts

    def sweep(self, conn: Connection) -> float:
        """Take back what lost its worker."""
        recover(conn)
        return _SWEEP_SECONDS

    def unlock_clicked(self, conn: Connection) -> float:
        """Unlock what waits for clicks that were written and not followed up."""
        after = sweep_clicks(conn, after=self._clicks_after, limit=_CLICKS_A_STEP)
        self._clicks_after = after or 0
        return _SWEEP_SECONDS if after is None else 0.0

    def look_at_due(self, conn: Connection) -> float | None:
        """Create runs of what has come due, and publish them at once if there is room."""
        seconds = _until(conn, due_pass.next_due_at(conn))
        if seconds > 0:
            return min(seconds, _SWEEP_SECONDS)
        room = self._announcer.room(conn) if self._announcer else 0
        # A pass no larger than the room saves its runs a second UPDATE. In a backlog the room may
        # stay small for long, and small passes would cost more than they save.
        limit = due_pass.LIMIT if self._backlog else min(room or due_pass.LIMIT, due_pass.LIMIT)
        announced = room >= limit
        with tracing.span("due_pass", kept_open=True) as span:
            result = due_pass.due_pass(conn, fairly=self._fairly, limit=limit, announced=announced)
            _tell(span, result.references)
            if announced and self._announcer:
                born = _born_announced(result.references, span.made_rows())
                self._announcer.publish(conn, list(born))
        self._backlog, self._fairly = result.more, result.fairly
        return 0.0 if result.looked_at else None

    def catch_up(self, conn: Connection) -> float | None:
        """Walk over the tables that were changed, before the next round does."""
        tables = self._behind or turns(list_tables_behind(conn, limit=_TABLES_A_STEP))
        if not tables:
            return _SWEEP_SECONDS
        with tracing.span("catch_up", kept_open=True) as span:
            result = tick(conn, tables=tables[:_TABLES_A_STEP], turn_seconds=TURN_SECONDS)
            _tell(span, result.references)
        self._behind = [*tables[_TABLES_A_STEP:], *result.unfinished]
        return 0.0 if result.tables_scanned else None

    def go_round(self, conn: Connection) -> float:
        """Do one tick of the round: every table once, whatever else looked at it."""
        if self._ticks is None or self._ticks_conn is not conn:
            self._round_began_at, self._ticks_conn = monotonic(), conn
            self._ticks = round_of_ticks(conn, table_limit=_TABLES_A_STEP)
        ends_at = self._round_began_at + self._round_seconds
        try:
            if self._next_tick() and monotonic() < ends_at:
                return 0.0
        except Exception:
            self._ticks = None
            raise
        self._ticks = None
        self._last_round_began_at = self._round_began_at
        metrics.TICKS.inc()
        metrics.TICK_SECONDS.observe(monotonic() - self._round_began_at)
        return max(0.0, ends_at - monotonic())

    def _next_tick(self) -> bool:
        """Do the next tick of the round; False when there is none left."""
        assert self._ticks is not None
        with tracing.span("round", kept_open=True) as span:
            result = next(self._ticks, None)
            _tell(span, () if result is None else result.references)
        return result is not None

    def announce(self, conn: Connection) -> float | None:
        """Offer a batch of what is due to the workers, as far as there is room for it."""
        seconds = _until(conn, next_announcement_at(conn))
        if seconds > 0 or self._announcer is None:
            return min(seconds, _SWEEP_SECONDS)
        return 0.0 if self._announcer.announce(conn) else None

    def delete_old(self, conn: Connection) -> float:
        """Delete a batch of what is old."""
        more = delete_old(conn, now=server_now(conn), run_retention_days=self._run_retention_days)
        return 0.0 if more else _RETENTION_SECONDS

    def measure(self, conn: Connection) -> float:
        """Set the gauges that only the database can tell."""
        overdue = -_until(conn, next_announcement_at(conn))
        metrics.OLDEST_DUE_SECONDS.set(max(overdue, 0.0))
        metrics.SCAN_LAG_SECONDS.set(monotonic() - self._last_round_began_at)
        metrics.UNFINISHED_WORK.labels("due").set(count_due(conn, limit=_COUNTED_AT_MOST))
        metrics.UNFINISHED_WORK.labels("running").set(count_running(conn))
        unreviewed = staged_changes.count_pending(conn, limit=_COUNTED_AT_MOST)
        metrics.CHANGES_TO_REVIEW.set(unreviewed)
        since = silent_since(conn)
        now = compare(lambda: server_now(conn))
        metrics.OLDEST_SILENT_CLAIM_SECONDS.set(_seconds(since, now))
        for kind, lists in _LISTS.items():
            stuck = lists.count_failed(conn) + lists.count_stale(conn, now=now)
            metrics.STUCK_WORK.labels(kind).set(stuck)
        self._transactions.look(conn)
        if self._announcer:
            self._announcer.measure()
        return _MEASURE_SECONDS

    def watch(self, conn: Connection) -> float:
        """Count the triggers that keep failing or are silent, once a round."""
        self._triggers.look(conn, now=server_now(conn))
        return float(self._round_seconds)


def _until(conn: Connection, at: datetime | None) -> float:
    """Return the seconds from the server's now to an instant; infinite when there is none."""
    return (at - server_now(conn)).total_seconds() if at else float("inf")


def _seconds(since: datetime | None, now: datetime) -> float:
    return max((now - since).total_seconds(), 0.0) if since else 0.0


def _tell(span: Span, runs: Sequence[Reference]) -> None:
    """Tell of a pass that made these runs, in its trace and in theirs; of one without, nothing.

    What else it meant to make was undone with its transaction.
    """
    if runs:
        span.forget_made(but={run.id for run in runs})
        span.end()


def _born_announced(
    references: Iterable[Reference], made: Mapping[object, Row]
) -> Iterator[Announced]:
    for reference in references:
        row = made.get(reference.id)
        yield Announced(
            kind="trigger_run",
            id=reference.id,
            token=reference.token,
            urgent=False,
            worker_losses=0,
            announcements=1,
            tenant_id=None if row is None else row.tenant_id,
        )
