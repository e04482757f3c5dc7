"""How instants are written where people and programs read them."""

from datetime import UTC, datetime


def instant_text(instant: datetime) -> str:
    """Return the aware ``instant`` as ``YYYY-MM-DDTHH:MM:SSZ``, cut to the second."""
    wall = instant.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    return f"{wall.isoformat()}Z"
