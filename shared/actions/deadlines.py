"""One total time limit per outgoing call, held by shutting the call's socket."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shared.lifecycle import monotonic


class Deadline:
    """The time limit of one call."""

    def __init__(self, *, seconds: float, lock: threading.Condition) -> None:
        self.ends_at = monotonic() + seconds
        self.expired = False
        self._lock = lock
        self._socket: socket.socket | None = None

    def remaining(self) -> float:
        """Return the seconds left; raises TimeoutError when there are none."""
        seconds = self.ends_at - monotonic()
        if self.expired or seconds <= 0:
            raise TimeoutError
        return seconds

    def hold(self, sock: socket.socket) -> None:
        """Name the socket that is to be shut at the end; at once, if that has passed."""
        with self._lock:
            self._socket = sock
            if self.expired:
                _shut(sock)

    def expire(self) -> None:
        """End the call: whatever it waits for on its socket comes back."""
        self.expired = True
        if self._socket is not None:
            _shut(self._socket)


class Deadlines:
    """Ends calls in time. One thread serves all calls of a process.

    A time limit per read would be none: a peer that sends a byte now and then holds the caller
    for ever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: set[Deadline] = set()
        self._wakes_at = float("inf")
        self._closed = False
        threading.Thread(target=self._run, name="call-deadlines", daemon=True).start()

    @contextmanager
    def limit(self, seconds: float) -> Iterator[Deadline]:
        """Give a call ``seconds``; after the block its socket is out of reach and may be kept."""
        deadline = Deadline(seconds=seconds, lock=self._changed)
        with self._changed:
            self._open.add(deadline)
            if deadline.ends_at < self._wakes_at:
                self._changed.notify()
        try:
            yield deadline
        finally:
            with self._changed:
                self._open.discard(deadline)

    def close(self) -> None:
        """End the thread; calls still open lose their limit."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                for deadline in [each for each in self._open if each.ends_at <= monotonic()]:
                    deadline.expire()
                    self._open.discard(deadline)
                self._wakes_at = min((each.ends_at for each in self._open), default=float("inf"))
                self._changed.wait(None if not self._open else max(self._wakes_at - monotonic(), 0))


def _shut(sock: socket.socket) -> None:
    # Not sock.shutdown(): an SSLSocket would drop its TLS state under the thread that reads.
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
