"""How many sessions the database server has, and how many it allows."""

from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import class_row

_COUNT_SESSIONS = """
SELECT
    count(*) AS open,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int AS allowed,
    count(*) FILTER (WHERE usename = session_user) AS open_by_role,
    nullif((SELECT rolconnlimit FROM pg_roles WHERE rolname = session_user), -1)
        AS allowed_to_role
FROM pg_stat_activity
WHERE backend_type = 'client backend'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sessions of all clients, and those of our role, whose limit may be None."""

    open: int
    allowed: int
    open_by_role: int
    allowed_to_role: int | None


def count_sessions(conn: Connection) -> Sessions:
    """Return how many sessions are open and allowed, this one included."""
    with conn.cursor(row_factory=class_row(Sessions)) as cursor:
        found = cursor.execute(_COUNT_SESSIONS).fetchone()
    assert found is not None
    return found
