"""That this worker lives, and that its leases go on: the liveness lock and the renewals.

The lock is a session's, so that it is gone the moment this process is; whoever meets the worker's
leases may then take them over without waiting for them to end.
"""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import get_args

import psycopg
import structlog
from psycopg import Connection

from services.worker.holdings import Held, Holdings
from services.worker.server_time import ServerTime
from services.worker.steps import ids_of
from shared.db.clock import server_now
from shared.db.connection import require_answer
from shared.db.sessions import count_sessions
from shared.domain.work import WorkKind
from shared.lifecycle import Stop, backoff_seconds, monotonic
from shared.observability import metrics
from shared.queries import work, workers

_log = structlog.get_logger()
_CHECK_SECONDS = 2.0
# Work resumes within 15 s of the database's return, so the lock is asked for more often.
_PAUSE_LIMIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLimits:
    """How long a lease is, and how often it is renewed."""

    lease_seconds: int
    renew_seconds: int


class Liveness:
    """The worker's row and its lock, on a session of its own.

    ``sessions_allowed`` is how many the database's role may have, None without a limit.
    """

    def __init__(
        self, connect: Callable[[], Connection], *, roles: tuple[str, ...], threads: int
    ) -> None:
        """Register the worker and take its lock; raises ``psycopg.Error`` if that fails."""
        self._connect = connect
        self._conn: Connection = connect()
        try:
            self.time = ServerTime(self._conn)
            self.sessions_allowed = count_sessions(self._conn).allowed_to_role
            self.alive = False
            while not self.alive:
                # After a failover that lost a tail a worker may live under an id given out again.
                self.worker_id = workers.register_worker(
                    self._conn,
                    host=socket.gethostname(),
                    release=version("duebook"),
                    roles=roles,
                    threads=threads,
                    now=self.time.now(),
                )
                self.alive = workers.hold_liveness(self._conn, self.worker_id)
        except psycopg.Error:
            self._conn.close()
            raise

    def check(self) -> bool:
        """Whether the lock is held, after trying to get it back if the session was lost.

        While it is not held, no action may begin: others may take this worker for dead.
        """
        try:
            if self.alive:
                require_answer(self._conn)
        except psycopg.Error:
            _log.warning("liveness_lost", worker_id=self.worker_id)
            self.alive = False
            self._conn.close()
        if not self.alive:
            self._regain()
        return self.alive

    def _regain(self) -> None:
        try:
            if self._conn.closed:
                self._conn = self._connect()
            self.alive = workers.hold_liveness(self._conn, self.worker_id)
        except psycopg.Error:
            self._conn.close()
        if self.alive:
            _log.info("liveness_regained", worker_id=self.worker_id)

    def close(self) -> None:
        """Say that this worker has stopped, and let the lock go."""
        try:
            workers.stop_worker(self._conn, self.worker_id, now=server_now(self._conn))
        except psycopg.Error:
            _log.info("worker_end_not_recorded", worker_id=self.worker_id)
        self._conn.close()


class LeaseKeeper:
    """A thread that, every two seconds, watches the liveness lock and does what has to go on.

    It reads the server's clock, renews the leases of what is held when that is due, and runs
    ``sweep`` (None: somebody else sweeps). At its end the worker is told to have stopped.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        liveness: Liveness,
        holdings: Holdings,
        limits: LeaseLimits,
        sweep: Callable[[Connection], object] | None,
    ) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._liveness = liveness
        self._holdings = holdings
        self._limits = limits
        self._sweep = sweep
        self._renewed_at = monotonic()
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether leases are being looked after."""
        return self._thread.is_alive()

    def stop(self, *, seconds: float) -> None:
        """End within ``seconds``; called when nothing is held any more."""
        self._stop.request()
        self._thread.join(seconds)

    def _run(self) -> None:
        failures = 0
        while not self._stop.wait(_pause(failures)):
            try:
                self._liveness.check()
                self._look_after()
                failures = 0
            except Exception as error:
                failures += 1
                if isinstance(error, psycopg.Error):
                    _log.warning("lease_upkeep_failed", reason=str(error), failures=failures)
                else:
                    _log.exception("lease_upkeep_crashed", failures=failures)
                self._close()
        self._close()
        self._liveness.close()

    def _look_after(self) -> None:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        self._liveness.time.synchronise(self._conn)
        if monotonic() - self._renewed_at >= self._limits.renew_seconds:
            self.renew(self._conn)
            self._renewed_at = monotonic()
        # A worker that is taken for dead would take its own runs back.
        if self._sweep and self._liveness.alive:
            self._sweep(self._conn)

    def renew(self, conn: Connection) -> None:
        """Renew every lease held; what the database no longer gives us is fenced."""
        held = self._holdings.all()
        for kind in get_args(WorkKind):
            if asked := [one for one in held if one.work.work_kind == kind]:
                self._renew(conn, kind, asked)

    def _renew(self, conn: Connection, kind: WorkKind, asked: list[Held]) -> None:
        # The lease counts from before the statement was sent: its answer may be late.
        until = monotonic() + self._limits.lease_seconds
        leases = work.renew(
            conn,
            kind=kind,
            worker_id=self._liveness.worker_id,
            lease_tokens=list({held.work.lease_token for held in asked}),
            lease_seconds=self._limits.lease_seconds,
        )
        still_held = {(lease.id, lease.token): lease.is_renewed for lease in leases}
        for held in self._holdings.renewed(asked, leases=still_held, until=until):
            metrics.LEASES_LOST.inc()
            _log.warning("lease_lost", **ids_of(held.work))

    def _close(self) -> None:
        if self._conn:
            self._conn.close()


def _pause(failures: int) -> float:
    return backoff_seconds(failures, limit=_PAUSE_LIMIT_SECONDS) if failures else _CHECK_SECONDS
