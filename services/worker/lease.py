"""That this worker lives, and that its leases go on: the liveness lock and the renewals.

The lock is a session's, so that it is gone the moment this process is; whoever meets the worker's
leases may then take them over without waiting for them to end.
"""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

import psycopg
import structlog
from psycopg import Connection

from services.worker.holdings import Holdings
from services.worker.server_time import ServerTime
from shared.db.clock import server_now
from shared.lifecycle import Stop, backoff_seconds, monotonic
from shared.observability import metrics
from shared.queries import work, workers

_log = structlog.get_logger()
_CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLimits:
    """How long a lease is, and how often it is renewed."""

    lease_seconds: int
    renew_seconds: int


class Liveness:
    """The worker's row and its lock, on a session of its own."""

    def __init__(
        self, connect: Callable[[], Connection], *, roles: tuple[str, ...], threads: int
    ) -> None:
        """Register the worker and take its lock; raises ``psycopg.Error`` if that fails."""
        self._connect = connect
        self._conn: Connection = connect()
        self.worker_id = workers.register_worker(
            self._conn,
            host=socket.gethostname(),
            release=version("duebook"),
            roles=roles,
            threads=threads,
            now=server_now(self._conn),
        )
        self.alive = workers.hold_liveness(self._conn, self.worker_id)

    def check(self) -> bool:
        """Whether the lock is held, after trying to get it back if the session was lost.

        While it is not held, no action may begin: others may take this worker for dead.
        """
        try:
            if self.alive:
                self._conn.execute("")
            else:
                self._regain()
        except psycopg.Error:
            if self.alive:
                _log.warning("liveness_lost", worker_id=self.worker_id)
            self.alive = False
            self._conn.close()
        return self.alive

    def _regain(self) -> None:
        if self._conn.closed:
            self._conn = self._connect()
        self.alive = workers.hold_liveness(self._conn, self.worker_id)
        if self.alive:
            _log.info("liveness_regained", worker_id=self.worker_id)

    @property
    def session(self) -> Connection:
        """The session, for a statement before the threads start."""
        return self._conn

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Say that this worker has stopped, and let the lock go."""
        try:
            workers.stop_worker(self._conn, self.worker_id, now=server_now(self._conn))
        except psycopg.Error:
            _log.info("worker_end_not_recorded", worker_id=self.worker_id)
        self._conn.close()


class LeaseKeeper:
    """A thread that, every two seconds, watches the liveness lock and does what has to go on.

    It reads the server's clock, renews the leases of what is held when that is due, and runs
    ``sweep`` (None: somebody else sweeps).
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        liveness: Liveness,
        holdings: Holdings,
        time: ServerTime,
        limits: LeaseLimits,
        sweep: Callable[[Connection], object] | None,
    ) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._liveness = liveness
        self._holdings = holdings
        self._time = time
        self._limits = limits
        self._sweep = sweep
        self._renewed_at = monotonic()
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; called when nothing is held any more."""
        self._stop.request()
        self._thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._stop.wait(backoff_seconds(failures) if failures else _CHECK_SECONDS):
            self._liveness.check()
            try:
                self._look_after()
                failures = 0
            except psycopg.Error as error:
                failures += 1
                _log.warning("lease_upkeep_failed", reason=str(error), failures=failures)
                self._close()
        self._close()

    def _look_after(self) -> None:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        self._time.synchronise(self._conn)
        if monotonic() - self._renewed_at >= self._limits.renew_seconds:
            self.renew(self._conn)
            self._renewed_at = monotonic()
        if self._sweep:
            self._sweep(self._conn)

    def renew(self, conn: Connection) -> None:
        """Renew every lease held; what the database no longer gives us is fenced."""
        asked = self._holdings.all()
        if not asked:
            return
        # The lease counts from before the statement was sent: its answer may be late.
        until = monotonic() + self._limits.lease_seconds
        ids = work.renew(
            conn,
            worker_id=self._liveness.worker_id,
            lease_tokens=list({held.run.lease_token for held in asked}),
            lease_seconds=self._limits.lease_seconds,
        )
        for held in self._holdings.renewed(asked, ids=set(ids), until=until):
            metrics.LEASES_LOST.inc()
            _log.warning("lease_lost", run_id=held.run.id)

    def _close(self) -> None:
        if self._conn:
            self._conn.close()
