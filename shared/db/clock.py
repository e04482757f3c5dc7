"""The one clock of the product is the database server's: replicas on wrong hosts agree by it."""

from datetime import datetime

from psycopg import Connection


def server_now(conn: Connection) -> datetime:
    """Return the server's time at this moment, aware UTC; it moves on within a transaction."""
    row = conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now
