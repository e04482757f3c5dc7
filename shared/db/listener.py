"""Waiting for notifications: a session that listens, and whoever else may end the wait."""

import select
from collections.abc import Callable
from typing import Protocol

import psycopg
from psycopg import Connection

from shared.db.connection import require_answer
from shared.lifecycle import monotonic

# A session whose other end is gone may say nothing for ever, as one does to which nobody speaks.
_QUIET_SECONDS = 30.0


class Wakeable(Protocol):
    """Has a descriptor that is readable from the moment on that a wait must end."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Listener:
    """A listening session of its own, opened when it is first needed and again after a loss."""

    def __init__(self, open_session: Callable[[], Connection]) -> None:
        """``open_session`` returns a session that listens to what this one is to wait for.

        It must connect directly: a transaction pooler would lose the notifications.
        """
        self._open_session = open_session
        self._conn: Connection | None = None
        self._is_new = False
        self._asked_at = 0.0

    def session(self) -> Connection:
        """Return the session, for statements between two waits."""
        if self._conn is None or self._conn.closed:
            self._conn, self._is_new = self._open_session(), True
            self._asked_at = monotonic()
        return self._conn

    def wait(self, seconds: float, *, wake: Wakeable) -> bool:
        """Wait up to ``seconds`` for a notification; True if one came since the last wait.

        True, at once, also when the session is new: something may have been said while nobody
        listened. A readable ``wake`` ends the wait. Raises ``psycopg.OperationalError`` when the
        session is lost; the next call opens another.
        """
        conn = self.session()
        if self._is_new:
            self._is_new = False
            return True
        try:
            return _heard(conn) or self._wait(conn, seconds, wake)
        except psycopg.OperationalError:
            self.close()
            raise

    def close(self) -> None:
        """Close the session; harmless when there is none."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _wait(self, conn: Connection, seconds: float, wake: Wakeable) -> bool:
        poll = select.poll()
        poll.register(conn.fileno(), select.POLLIN)
        poll.register(wake.fileno(), select.POLLIN)
        # Rounded up: a wait that ends early would make its caller spin.
        poll.poll(-(-max(seconds, 0) * 1000 // 1))
        return _heard(conn) or self._ask(conn)

    def _ask(self, conn: Connection) -> bool:
        """Ask a session that is quiet whether it lives; True if something came meanwhile."""
        if monotonic() - self._asked_at < _QUIET_SECONDS:
            return False
        require_answer(conn)
        self._asked_at = monotonic()
        return _heard(conn)


def _heard(conn: Connection) -> bool:
    return any([True for _ in conn.notifies(timeout=0)])  # all of them: they are one hint
