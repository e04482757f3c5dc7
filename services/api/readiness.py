"""Whether the API can do its work just now."""

import psycopg

from services.api.dependencies import Sessions
from shared.db.clock import server_now
from shared.db.migrate import pending
from shared.observability.host_clock import compare
from shared.observability.http import Check


def readiness_check(sessions: Sessions) -> Check:
    """Return the check: a session can be had, and no migration of this release is missing."""

    def check() -> str | None:
        try:
            with sessions() as conn:
                missing = pending(conn)
                compare(lambda: server_now(conn))  # also on a host that nobody asks anything
        except psycopg.OperationalError as error:
            return f"database: {error}".splitlines()[0]
        return f"migrations missing: {', '.join(missing)}" if missing else None

    return check
