"""Pending runs, written as plainly as possible."""

from datetime import UTC, datetime
from uuid import uuid4

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

_TABLE = """
WITH owner AS (
    INSERT INTO tenant (name, created_at) VALUES (%(name)s, %(now)s) RETURNING id
), frozen AS (
    INSERT INTO definition (tenant_id, hash, body)
    SELECT id, sha256('{}'), '{"v": 1}' FROM owner
)
INSERT INTO custom_table (tenant_id, name, columns, columns_made, created_at, updated_at)
SELECT id, 'table', '[]', 0, %(now)s, %(now)s FROM owner
RETURNING tenant_id, id
"""

_RUNS = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, kind, identity, scheduled_for, definition_hash,
    urgent, worker_losses, next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    %(tenant)s, %(table)s, 'trg_000000000001', 'record_created', number, %(now)s, sha256('{}'),
    %(urgent)s, %(worker_losses)s, at, at, %(now)s, %(now)s
FROM generate_series(1, %(count)s) AS number
CROSS JOIN (SELECT clock_timestamp() + make_interval(secs => %(in_seconds)s) AS at) AS due
RETURNING id
"""


def insert_table(conn):
    """Insert a tenant with a table; return both ids."""
    return conn.execute(_TABLE, {"name": uuid4().hex, "now": NOW}).fetchone()


def insert_runs(conn, *, count=1, table=None, urgent=False, worker_losses=0, in_seconds=0.0):
    """Insert pending runs that are due in so many seconds, and return their ids."""
    tenant_id, table_id = table or insert_table(conn)
    parameters = {
        "tenant": tenant_id,
        "table": table_id,
        "count": count,
        "urgent": urgent,
        "worker_losses": worker_losses,
        "in_seconds": in_seconds,
        "now": NOW,
    }
    return [id for (id,) in conn.execute(_RUNS, parameters)]
