"""Processes that die between two of their steps, as by kill -9, within the test's own process.

The product's own objects work on sessions that count their statements and commits. At a chosen one
something happens: the process dies, so that what is not committed is rolled back and what it had in
memory is gone; or the world goes on while the process stands still.
"""

from collections.abc import Callable
from contextlib import contextmanager

from psycopg import Connection

from shared.db.tenant_session import TenantSession
from shared.lifecycle import wait_until

_OPTIONS = "-c timezone=UTC -c lock_timeout=200ms -c statement_timeout=30s"
_GONE = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY(%s))"
_SECONDS = 20


class Killed(BaseException):
    """The process is dead; no handler of the product gets to see it."""


class Points:
    """The steps of all processes, one after the other, and what happens before one of them."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._left = 0
        self._kind = ""
        self._fate: Callable[[Process], object] | None = None

    def arm(self, steps: int, kind: str, fate: "Callable[[Process], object]") -> None:
        """Let ``fate`` happen, once, after so many steps, of those that begin with ``kind``."""
        self._left, self._kind, self._fate = steps, kind, fate

    def disarm(self) -> None:
        """Let nothing happen any more."""
        self._fate = None

    def meet(self, process: "Process", name: str) -> None:
        """Stand before a step of a process."""
        fate = self._fate
        if fate is not None and name.startswith(self._kind):
            if self._left == 0:
                self._fate = None
                fate(process)
            else:
                self._left -= 1
        process.check()
        self.passed.append(name)


class Process:
    """Sessions that die together; ``monitor`` is one that lives on."""

    def __init__(self, url: str, *, points: Points, monitor: Connection) -> None:
        self._url = url
        self._points = points
        self._monitor = monitor
        self._sessions: list[MortalConnection] = []
        self.dead = False

    def connect(self) -> Connection:
        """Open a session."""
        self.check()
        session = MortalConnection.connect(self._url, autocommit=True, options=_OPTIONS)
        session.process = self
        self._sessions.append(session)
        return session

    @contextmanager
    def connection(self):
        """Lend a session as a pool does."""
        free = [session for session in self._sessions if session.is_free]
        session = free[0] if free else self.connect()
        session.is_free = False
        try:
            yield session
        finally:
            session.is_free = True

    def meet(self, name: str) -> None:
        """Stand before a step."""
        self.check()
        self._points.meet(self, name)

    def check(self) -> None:
        """Raise Killed if the process is dead."""
        if self.dead:
            raise Killed

    def die(self) -> None:
        """Lose every session, and wait until the server has let go what they held."""
        self.dead = True
        pids = [session.info.backend_pid for session in self._sessions if not session.closed]
        for session in self._sessions:
            session.pgconn.finish()
        gone = lambda: self._monitor.execute(_GONE, [pids]).fetchone() == (True,)  # noqa: E731
        assert wait_until(gone, seconds=_SECONDS, every_seconds=0.001)


class MortalConnection(TenantSession):
    """A session whose process may die before each statement and before each COMMIT."""

    process: Process | None = None
    is_free = False

    def wait(self, gen, *args, **options):
        """Stand before what the driver is about to do, then let it."""
        if self.process is not None:
            name = gen.gi_code.co_name
            if name == "_execute_gen":
                self.process.meet(" ".join(str(gen.gi_frame.f_locals["query"]).split()[:6]))
            elif name == "_exit_gen":
                self.process.meet("COMMIT")
            else:
                self.process.check()
        return super().wait(gen, *args, **options)
