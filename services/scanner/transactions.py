"""For how long other sessions keep transactions open: what is old keeps every table from shrinking.

Their beginning is not told to our role, so it is the first sight of each that counts.
"""

import structlog
from psycopg import Connection

from shared.db.sessions import list_open_transactions
from shared.lifecycle import monotonic
from shared.observability import metrics

_LONG_SECONDS = 300.0

_log = structlog.get_logger()


class TransactionWatch:
    """Remembers the transactions that it saw; used by one thread."""

    def __init__(self, *, long_seconds: float = _LONG_SECONDS) -> None:
        self._long_seconds = long_seconds
        self._first_seen: dict[str, float] = {}
        self._named: set[str] = set()

    def look(self, conn: Connection) -> None:
        """Tell the age of the oldest, and name in the log, once, what has been open for long.

        A look never makes a transaction older than it is, at most as much younger as the time since
        the look before.
        """
        at = monotonic()
        found = list_open_transactions(conn)
        self._first_seen = {
            one.virtual_id: self._first_seen.get(one.virtual_id, at) for one in found
        }
        self._named &= self._first_seen.keys()
        for one in found:
            seconds = at - self._first_seen[one.virtual_id]
            if seconds >= self._long_seconds and one.virtual_id not in self._named:
                self._named.add(one.virtual_id)
                _log.warning("transaction_open_long", pid=one.pid, application=one.application_name)
        oldest = min(self._first_seen.values(), default=at)
        metrics.OLDEST_TRANSACTION_SECONDS.set(at - oldest)
