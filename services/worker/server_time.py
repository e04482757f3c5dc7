"""The database's clock between two readings of it, by this process's monotonic clock.

A receipt tells when its action began and ended. Asking the server twice for each action would
cost as much as the action; the host's own clock may be wrong by hours.
"""

from datetime import datetime, timedelta

from psycopg import Connection

from shared.db.clock import server_now
from shared.lifecycle import monotonic
from shared.observability.host_clock import compare


class ServerTime:
    """Tells the server's time; read anew by ``synchronise`` every few seconds."""

    def __init__(self, conn: Connection) -> None:
        self.synchronise(conn)

    def synchronise(self, conn: Connection) -> None:
        """Read the server's clock."""
        compare(lambda: self._read(conn))

    def _read(self, conn: Connection) -> datetime:
        before = monotonic()
        at = server_now(conn)
        # One reference, replaced as a whole: readers on other threads see an old or a new pair.
        self._reading = (at, (before + monotonic()) / 2)
        return at

    def now(self) -> datetime:
        """Return the server's time, aware UTC, good to some milliseconds."""
        at, read_at = self._reading
        return at + timedelta(seconds=monotonic() - read_at)
