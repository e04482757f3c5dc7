"""The ids that a database gives out."""

from psycopg import Connection, errors

from shared.db.roles import schema_fault
from shared.errors import Forbidden, NotFound

# Sequences are in no transaction: what was passed over stays so. Never more than half of what is
# left: ids of workers end with 32 bits.
_PASS_OVER = """
SELECT
    sequencename,
    setval(
        format('%%I.%%I', schemaname, sequencename)::regclass,
        coalesce(last_value, 0) + least(%(count)s, (max_value - coalesce(last_value, 0)) / 2)
    )
FROM pg_sequences
WHERE schemaname = current_schema()
ORDER BY sequencename
"""


def pass_over_ids(conn: Connection, count: int) -> dict[str, int]:
    """Let every table go on ``count`` ids later; return the last ids that are passed over.

    It is half of those that are left where that is less. They are by the names of the sequences.
    Raises Forbidden for a login that does not own these, or does not see them, NotFound where there
    are none.
    """
    if fault := schema_fault(conn):
        raise Forbidden(fault, code="database_role_missing")
    try:
        passed_over: dict[str, int] = dict(conn.execute(_PASS_OVER, {"count": count}).fetchall())
    except errors.InsufficientPrivilege as error:
        message = f"{error.diag.message_primary}: let the owner of the tables do it"
        raise Forbidden(message, code="database_role_missing") from error
    if not passed_over:
        raise NotFound("the database has no tables of ours: restore it first", code="no_tables")
    return passed_over
