"""The sessions of the database server: how many, how many it allows, and what they hold open."""

from dataclasses import dataclass
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import args_row, class_row

# Of another role's sessions the server tells hardly more than the role and the database. Its own
# processes have one of the two at most, but for workers of parallel queries and of replication:
# those of others count as clients. What release 16 and newer reserve for a role is not for us.
_COUNT_SESSIONS = """
SELECT
    count(*) AS open,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) AS allowed,
    count(*) FILTER (WHERE usename = session_user) AS open_by_role,
    nullif((SELECT rolconnlimit FROM pg_roles WHERE rolname = session_user), -1)
        AS allowed_to_role
FROM pg_stat_activity
WHERE usesysid IS NOT NULL
    AND datid IS NOT NULL
    AND coalesce(backend_type, 'client backend') = 'client backend'
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


class OpenTransaction(NamedTuple):
    """A transaction of another session: its virtual id is never that of another one."""

    virtual_id: str
    pid: int
    application_name: str


# When a transaction began is told to its own role alone; that it goes on, everybody sees.
_LIST_TRANSACTIONS = """
SELECT held.virtualtransaction, held.pid, activity.application_name
FROM pg_locks AS held
JOIN pg_stat_activity AS activity ON activity.pid = held.pid
WHERE held.locktype = 'virtualxid'
    AND held.pid <> pg_backend_pid()
    AND activity.datname = current_database()
    AND activity.usesysid IS NOT NULL
ORDER BY held.pid
"""


def list_open_transactions(conn: Connection) -> list[OpenTransaction]:
    """Return the transactions that clients have open in this database, without our own."""
    with conn.cursor(row_factory=args_row(OpenTransaction)) as cursor:
        return cursor.execute(_LIST_TRANSACTIONS).fetchall()
