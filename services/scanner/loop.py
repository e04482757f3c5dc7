"""The scanner's loop: parts that each say when they want to run next, and waiting in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import psycopg
import structlog
from psycopg import Connection

from shared.db.listener import Wakeable
from shared.lifecycle import Stop, backoff_seconds, monotonic
from shared.observability import metrics

_log = structlog.get_logger()

_FAILURE_PAUSE_LIMIT_SECONDS = 30.0
_RECONNECT_PAUSE_LIMIT_SECONDS = 5.0
_STALL_FIRST_SECONDS = 0.02
_STALL_LIMIT_SECONDS = 0.5
# No step lasts longer: statements end after 30 s, and so does waiting for the broker.
_SILENT_SECONDS = 300.0


class Step(Protocol):
    """One step of a part, short enough for the others to get their turn."""

    def __call__(self, conn: Connection) -> float | None:
        """Return the seconds until the next step is wanted; 0: at once, with more to do.

        None: there is something to do and it could not be done just now.
        """


@dataclass(slots=True, kw_only=True)
class Part:
    """A step with its plan. ``woken``: a notification is a reason to look at once."""

    name: str
    step: Step
    woken: bool = False
    wanted_at: float = 0.0
    failures: int = 0
    stalls: int = 0


class Waiter(Protocol):
    """What ends the wait between two passes."""

    def wait(self, seconds: float, *, wake: Wakeable) -> bool:
        """Wait for a notification, ``wake`` or the time; True: a notification came."""

    def close(self) -> None:
        """Let its session go."""


class Loop:
    """Runs the parts in their order, each when it wants to, until it is asked to stop."""

    def __init__(
        self, parts: Sequence[Part], *, connect: Callable[[], Connection], waiter: Waiter
    ) -> None:
        self._parts = parts
        self._connect = connect
        self._waiter = waiter
        self._beat_at = monotonic()
        self._connected = False

    def run(self, stop: Stop) -> None:
        """Go on until ``stop``; the database may come and go meanwhile."""
        failures = 0
        try:
            while not stop.requested:
                try:
                    self._serve(stop)
                except Exception as error:
                    failures = 1 if self._connected else failures + 1
                    self._connected = False
                    if isinstance(error, psycopg.Error):
                        _log.warning("database_lost", reason=str(error).strip(), failures=failures)
                    else:
                        _log.exception("scan_loop_crashed", failures=failures)
                    self._beat_at = monotonic()
                    stop.wait(backoff_seconds(failures, limit=_RECONNECT_PAUSE_LIMIT_SECONDS))
        finally:
            self._waiter.close()

    def silence(self) -> str | None:
        """Return None while the loop moves, else what is wrong; asked by other threads."""
        silent = monotonic() - self._beat_at
        return f"no step for {silent:.0f} s" if silent > _SILENT_SECONDS else None

    def fault(self) -> str | None:
        """Return None while the database answers, else what is wrong; asked by other threads."""
        return None if self._connected else "the database is away"

    def _serve(self, stop: Stop) -> None:
        with self._connect() as conn:
            while not stop.requested:
                self._pass(conn, stop)
                self._connected = True
                self._wait(stop)

    def _pass(self, conn: Connection, stop: Stop) -> None:
        for part in self._parts:
            if not stop.requested and part.wanted_at <= monotonic():
                pause = _attempt(part, conn)
                self._beat_at = monotonic()
                part.wanted_at = self._beat_at + pause

    def _wait(self, stop: Stop) -> None:
        next_at = min(part.wanted_at for part in self._parts)
        if self._waiter.wait(next_at - monotonic(), wake=stop):
            for part in self._parts:
                if part.woken and not part.failures:
                    part.wanted_at = 0.0


def _attempt(part: Part, conn: Connection) -> float:
    """Take one step and return the pause that follows; a failing part harms only itself."""
    try:
        pause = part.step(conn)
    except Exception as error:
        if conn.closed:
            raise psycopg.OperationalError(f"the session was lost: {error}") from error
        part.failures += 1
        metrics.TICK_FAILURES.labels(part.name).inc()
        _log.exception("scan_part_failed", part=part.name, failures=part.failures)
        return backoff_seconds(part.failures, limit=_FAILURE_PAUSE_LIMIT_SECONDS)
    part.failures = 0
    part.stalls = part.stalls + 1 if pause is None else 0
    if pause is None:
        return backoff_seconds(part.stalls, first=_STALL_FIRST_SECONDS, limit=_STALL_LIMIT_SECONDS)
    return pause
