"""Workers and who of them lives: one row per start, and a session lock under the row's id.

The lock and LISTEN belong to a session: connect directly, not through a pooler.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from psycopg import Connection

_REGISTER_WORKER = """
INSERT INTO worker (host, release, roles, threads, started_at)
VALUES (%(host)s, %(release)s, %(roles)s, %(threads)s, %(now)s)
RETURNING id
"""


def register_worker(
    conn: Connection, *, host: str, release: str, roles: Sequence[str], threads: int, now: datetime
) -> int:
    """Insert a worker that starts now and return its id, which is new at every start."""
    parameters = {
        "host": host,
        "release": release,
        "roles": list(roles),
        "threads": threads,
        "now": now,
    }
    row = conn.execute(_REGISTER_WORKER, parameters).fetchone()
    assert row is not None
    worker_id: int = row[0]
    return worker_id


_HOLD_LIVENESS = "SELECT pg_try_advisory_lock(728, %(worker_id)s)"


def hold_liveness(conn: Connection, worker_id: int) -> bool:
    """Take the worker's lock for as long as this session lives; False while another has it.

    A worker holds it before its first claim.
    """
    return conn.execute(_HOLD_LIVENESS, {"worker_id": worker_id}).fetchone() == (True,)


# A list ``living``; the sweep of stale runs begins with it too.
LIVING = """
WITH living AS MATERIALIZED (
    SELECT objid::int AS worker_id
    FROM pg_locks
    WHERE locktype = 'advisory'
        AND classid = 728
        AND objsubid = 2
        AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""

_LIST_LIVING = """
SELECT worker_id
FROM living
ORDER BY worker_id
"""

_LIVING_WORKERS = LIVING + _LIST_LIVING


def living_workers(conn: Connection) -> list[int]:
    """Return the ids of the workers whose lock is held."""
    return [worker_id for (worker_id,) in conn.execute(_LIVING_WORKERS)]


_COUNT_THREADS = """
SELECT role, sum(threads)::int
FROM worker
CROSS JOIN unnest(roles) AS role
WHERE id = ANY(%(worker_ids)b::int[])
GROUP BY role
"""


def count_threads(conn: Connection, worker_ids: Sequence[int]) -> Mapping[str, int]:
    """Return how many threads these workers have together, by each role that one of them has."""
    return dict(conn.execute(_COUNT_THREADS, {"worker_ids": list(worker_ids)}).fetchall())


_LIST_RELEASES = """
SELECT DISTINCT release
FROM worker
WHERE id = ANY(%(worker_ids)b::int[])
ORDER BY release
"""


def list_releases(conn: Connection, worker_ids: Sequence[int]) -> list[str]:
    """Return the releases of these workers, each once, in text order."""
    rows = conn.execute(_LIST_RELEASES, {"worker_ids": list(worker_ids)})
    return [release for (release,) in rows]


_STOP_WORKER = """
UPDATE worker
SET stopped_at = %(now)s
WHERE id = %(worker_id)s AND stopped_at IS NULL
"""


def stop_worker(conn: Connection, worker_id: int, *, now: datetime) -> None:
    """Note that the worker has stopped by itself; its lock goes with its session."""
    conn.execute(_STOP_WORKER, {"worker_id": worker_id, "now": now})


# Held runs name their worker, so a worker's row outlives them.
_DELETE_OLD_WORKERS = """
WITH old AS MATERIALIZED (
    SELECT worker.id
    FROM worker
    WHERE worker.started_at < %(before)s
        AND worker.id <> ALL(%(living)b::int[])
        AND NOT EXISTS (
            SELECT
            FROM trigger_run AS run
            WHERE run.worker_id = worker.id AND run.status = 'running'
        )
    ORDER BY worker.id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM worker
USING old
WHERE worker.id = old.id
"""


def delete_old_workers(
    conn: Connection, *, before: datetime, living: Sequence[int], limit: int
) -> int:
    """Delete up to ``limit`` workers that started before then, live no more and hold nothing."""
    parameters = {"before": before, "living": list(living), "limit": limit}
    return conn.execute(_DELETE_OLD_WORKERS, parameters).rowcount
