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


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # untyped, as said above
    """A thread serves one connection at a time, and a client that never ends would keep it.

    A request must have arrived whole ``ARRIVAL_SECONDS`` after a thread took it up: then reading
    ends, whatever came meanwhile (a limit per read would not help against a byte now and then).
    A client that does not take its answer is given up after 20 seconds without progress.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._ends: dict[TConn, float] = {}

    def handle(self, conn: TConn) -> object:
        """Serve one request of a connection, under both limits."""
        limit = struct.pack("ll", _SEND_SECONDS, 0)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._ends[conn] = monotonic() + ARRIVAL_SECONDS
        try:
            return super().handle(conn)
        finally:
            del self._ends[conn]

    def notify(self) -> None:
        """Tell the master that we live, once a second, and end what took too long to arrive."""
        super().notify()
        now = monotonic()
        for conn, end in list(self._ends.items()):
            if end < now:
                # Only reading ends: an answer that is being worked out still goes out.
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)


class PlainLogger(Logger):  # type: ignore[misc]  # untyped, as said above
    """Hands gunicorn's lines to the root logger, so that a process logs in one form."""

    def setup(self, cfg: object) -> None:
        """Give up gunicorn's own handlers and formats."""
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self.access_log.disabled = True
