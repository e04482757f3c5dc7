"""Whether a link has been clicked: the port, the durable store, and the choice between stores.

The durable row in PostgreSQL is the truth. A store before it may answer yes; its no proves nothing.
"""

from datetime import datetime
from typing import Protocol

from psycopg import Connection

from shared.domain.tracking import TrackingLink
from shared.queries.tracking import find_click, keep_click, record_click


class ClickStore(Protocol):
    """Where clicks are written and asked for; may be used by several threads at once.

    Both raise ``psycopg.Error`` when the database does not answer.
    """

    def mark(self, conn: Connection, link: TrackingLink, *, clicked_at: datetime) -> None:
        """Write a click, durably at last; ``conn`` is in no transaction."""

    def clicked_at(self, conn: Connection, link: TrackingLink) -> datetime | None:
        """Return when the link was clicked, None when it was not by the time of this call.

        A click that is told is durable as soon as what ``conn`` is in has committed.
        """

    def close(self) -> None:
        """Let connections go."""


class PostgresClicks:
    """The durable rows alone."""

    def mark(self, conn: Connection, link: TrackingLink, *, clicked_at: datetime) -> None:
        """Write the row, or count in it."""
        record_click(conn, link.id, clicked_at=clicked_at)

    def clicked_at(self, conn: Connection, link: TrackingLink) -> datetime | None:
        """Return the instant of the row."""
        return find_click(conn, link.id)

    def keep(self, conn: Connection, link: TrackingLink, *, clicked_at: datetime) -> None:
        """Write the row of a click that is known from elsewhere, where it is not there yet."""
        keep_click(conn, link.id, clicked_at=clicked_at)

    def close(self) -> None:
        """Do nothing: the sessions are the caller's."""
