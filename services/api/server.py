"""gunicorn's threaded worker and its logger, as the product wants them."""

import contextlib
import logging
import socket
import struct

from gunicorn.glogging import Logger  # type: ignore[import-untyped]  # it has none
from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # it has none
    TConn,
    ThreadWorker,
)

from shared.lifecycle import monotonic

ARRIVAL_SECONDS = 60.0
_SEND_SECONDS = 20


class Arrivals:
    """The connections on which a request is being read, each with the end of our patience.

    A limit per read would not help against a byte now and then.
    """

    def __init__(self) -> None:
        self._ends: dict[socket.socket, float] = {}

    def begin(self, sock: socket.socket, *, now: float) -> None:
        """Note that a thread begins to read; ``now`` is monotonic."""
        self._ends[sock] = now + ARRIVAL_SECONDS

    def end(self, sock: socket.socket) -> None:
        """Note that the thread is done with it."""
        self._ends.pop(sock, None)

    def end_overdue(self, *, now: float) -> None:
        """End the reading of what took too long: it reads as cut off, its answer still goes out."""
        for sock, end in list(self._ends.items()):
            if end <= now:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RD)


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # untyped, as said above
    """A thread serves one connection at a time, and a client that never ends would keep it.

    A request must have arrived whole a minute after a thread took it up. A client that does not
    take its answer is given up after 20 seconds without progress.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._arrivals = Arrivals()

    def handle(self, conn: TConn) -> object:
        """Serve one request of a connection, under both limits."""
        limit = struct.pack("ll", _SEND_SECONDS, 0)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._arrivals.begin(conn.sock, now=monotonic())
        try:
            return super().handle(conn)
        finally:
            self._arrivals.end(conn.sock)

    def notify(self) -> None:
        """Tell the master that we live, once a second, and end what took too long to arrive."""
        super().notify()
        self._arrivals.end_overdue(now=monotonic())


class PlainLogger(Logger):  # type: ignore[misc]  # untyped, as said above
    """Hands gunicorn's lines to the root logger, so that a process logs in one form."""

    def setup(self, cfg: object) -> None:
        """Give up gunicorn's own handlers and formats."""
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self.access_log.disabled = True
