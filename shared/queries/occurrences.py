"""The occurrence ledger: each identity of a trigger is consumed once, whatever becomes of its run.

Rows are inserted with their runs, in ``trigger_runs``; they are never changed nor deleted.
"""

from collections.abc import Sequence

from psycopg import Connection

from shared.queries.arrays import numbers_text

_CONSUMED_IDENTITIES = """
SELECT record_id, identity
FROM occurrence
WHERE trigger_ref = %(trigger_ref)s AND record_id = ANY(%(record_ids)s::bigint[])
"""


def consumed_identities(
    conn: Connection, *, trigger_ref: int, record_ids: Sequence[int]
) -> set[tuple[int, str]]:
    """Return what these records have consumed of a date trigger, as (record id, identity)."""
    parameters = {"trigger_ref": trigger_ref, "record_ids": numbers_text(record_ids)}
    return set(conn.execute(_CONSUMED_IDENTITIES, parameters).fetchall())


_IS_WINDOW_CONSUMED = """
SELECT
FROM occurrence
WHERE trigger_ref = %(trigger_ref)s AND record_id = 0 AND identity = %(identity)s
"""


def is_window_consumed(conn: Connection, *, trigger_ref: int, identity: str) -> bool:
    """Whether a window of a clock trigger is in the ledger."""
    parameters = {"trigger_ref": trigger_ref, "identity": identity}
    return conn.execute(_IS_WINDOW_CONSUMED, parameters).fetchone() is not None
