"""This machine's clock, only to compare it with the database's: nothing is ever due by it."""

from collections.abc import Callable
from datetime import UTC, datetime


def seconds_ahead(read_server: Callable[[], datetime]) -> float:
    """Return by how many seconds the server's clock, read now, is ahead of this machine's.

    Good to half of the time that the reading takes.
    """
    before = datetime.now(UTC)
    server = read_server()
    return (server - (before + (datetime.now(UTC) - before) / 2)).total_seconds()
