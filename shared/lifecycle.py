"""The life of a process: the wish to stop, waiting, and the monotonic clock. No wall clock."""

import os
import select
import signal
import time
import weakref
from collections.abc import Callable
from types import FrameType


def monotonic() -> float:
    """Return seconds of the monotonic clock: good for durations, meaningless otherwise."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Wait, however much somebody wishes to stop: for moments that nobody would notice."""
    time.sleep(seconds)


class Stop:
    """The wish to stop, shared by every loop of a process.

    A pipe, not a ``threading.Event``: a signal handler may run while the main thread is inside
    the event's lock. Its read end (``fileno``) can be polled beside a database's socket.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._requested = False
        weakref.finalize(self, _close, self._read, self._write)

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop."""
        return self._requested

    def request(self) -> None:
        """Ask to stop; every present and future wait returns at once."""
        if not self._requested:
            self._requested = True
            os.write(self._write, b"\0")

    def fileno(self) -> int:
        """Return a descriptor that is readable from the request on, for use with poll."""
        return self._read

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``; True as soon as a stop was asked for."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        return bool(poll.poll(max(seconds, 0) * 1000))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def stop_on_signals() -> Stop:
    """Return a Stop that SIGTERM and SIGINT request; the second signal ends the process at once.

    Ending hard is safe at any instant: leases and announcements bring the work back.
    """
    stop = Stop()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.requested:
            os._exit(1)
        stop.request()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


def wait_until(
    condition: Callable[[], bool], *, seconds: float, every_seconds: float = 0.05
) -> bool:
    """Ask ``condition`` until it holds (True) or ``seconds`` have passed (False)."""
    deadline = monotonic() + seconds
    while not condition():
        if monotonic() >= deadline:
            return False
        pause(every_seconds)
    return True


def backoff_seconds(failures: int, *, first: float = 0.1, limit: float = 30.0) -> float:
    """Return the pause after so many failures in a row (from 1): doubling, at most ``limit``."""
    return min(first * 2.0 ** min(failures - 1, 30), limit)
