"""The clock of this machine, for the one who compares it with the database's. Nobody else asks."""

from datetime import UTC, datetime


def host_now() -> datetime:
    """Return this machine's time, aware UTC; nothing is ever due by it."""
    return datetime.now(UTC)
