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
        self._handle: socket.socket | None = None

    def remaining(self) -> float:
        """Return the seconds left. Raises TimeoutError when there are none."""
        seconds = self.ends_at - monotonic()
        if self.expired or seconds <= 0:
            raise TimeoutError
        return seconds

    def hold(self, sock: socket.socket) -> None:
        """Name the connected socket that is to be shut at the end; at once, if that has passed.

        Through a descriptor of its own: whoever reads may close the socket at any time, and its
        number may by then belong to another call.
        """
        handle = socket.fromfd(sock.fileno(), sock.family, sock.type)
        with self._lock:
            self.let_go()
            self._handle = handle
            if self.expired:
                self.expire()

    def expire(self) -> None:
        """End the call, with the lock held: whatever it waits for on its socket comes back."""
        self.expired = True
        if self._handle is not None:
            with suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)

    def let_go(self) -> None:
        """Leave the socket alone from here on; with the lock held."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None


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
        """Give a call ``seconds``; after the block its socket may be kept for another."""
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
                deadline.let_go()

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
