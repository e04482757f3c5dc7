"""This machine's clock, only to compare it with the database's: nothing is ever due by it."""

from collections.abc import Callable
from datetime import UTC, datetime

from shared.observability import metrics


def compare(read_server: Callable[[], datetime]) -> datetime:
    """Return the server's time, read now; tell on the way how far this machine's is from it."""
    server, ahead = _read(read_server)
    metrics.CLOCK_AHEAD_SECONDS.set(ahead)
    return server


def seconds_ahead(read_server: Callable[[], datetime]) -> float:
    """Return by how many seconds the server's clock, read now, is ahead of this machine's.

    Good to half of the time that the reading takes.
    """
    return _read(read_server)[1]


def _read(read_server: Callable[[], datetime]) -> tuple[datetime, float]:
    before = datetime.now(UTC)
    server = read_server()
    return server, (server - (before + (datetime.now(UTC) - before) / 2)).total_seconds()
