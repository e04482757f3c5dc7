"""gunicorn's threaded worker and its logger, as the product wants them."""

import contextlib
import logging
import socket
import struct

import structlog
from gunicorn.glogging import Logger  # type: ignore[import-untyped]  # it has none
from gunicorn.http import errors  # type: ignore[import-untyped]  # it has none
from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # it has none
    TConn,
    ThreadWorker,
)
from werkzeug.exceptions import (
    BadRequest,
    ExpectationFailed,
    HTTPException,
    RequestHeaderFieldsTooLarge,
    RequestURITooLarge,
)

from services.api.problems import respond_to
from shared.lifecycle import monotonic

_log = structlog.get_logger()

ARRIVAL_SECONDS = 60.0
_SEND_SECONDS = 20

_REFUSALS: tuple[tuple[type[Exception], type[HTTPException]], ...] = (
    (errors.LimitRequestLine, RequestURITooLarge),
    (errors.LimitRequestHeaders, RequestHeaderFieldsTooLarge),
    (errors.ExpectationFailed, ExpectationFailed),
    (errors.ParseException, BadRequest),
)


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

    def handle_error(
        self, req: object, client: socket.socket, addr: object, exc: Exception
    ) -> None:
        """Answer what is no request as every other error; its text may be a secret, and is told
        to nobody.
        """
        refusal = next((refusal for kind, refusal in _REFUSALS if isinstance(exc, kind)), None)
        if refusal is None:
            super().handle_error(req, client, addr, exc)
            return
        _log.warning("request_unreadable", reason=type(exc).__name__)
        with contextlib.suppress(OSError):
            client.sendall(_last_answer(refusal()))

    def _keepalive_after(self, conn: TConn, keepalive: bool) -> bool:
        """Read what is left of a body that was answered; one that is none gets no second answer."""
        try:
            return bool(super()._keepalive_after(conn, keepalive))
        except errors.ParseException:
            return False

    def notify(self) -> None:
        """Tell the master that we live, once a second, and end what took too long to arrive."""
        super().notify()
        self._arrivals.end_overdue(now=monotonic())


def _last_answer(refusal: HTTPException) -> bytes:
    """Return the bytes of an answer behind which the connection is closed."""
    answer = respond_to(refusal)
    body = answer.get_data()
    head = (
        f"HTTP/1.1 {answer.status}\r\nConnection: close\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body


class PlainLogger(Logger):  # type: ignore[misc]  # untyped, as said above
    """Hands gunicorn's lines to the root logger, so that a process logs in one form."""

    def setup(self, cfg: object) -> None:
        """Give up gunicorn's own handlers and formats."""
        self.cfg = cfg
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self.access_log.disabled = True
