"""The ids that a database gives out."""

from psycopg import Connection, errors

from shared.errors import Forbidden

# Sequences are in no transaction: what was passed over stays so.
_PASS_OVER = """
SELECT
    sequencename,
    setval(
        format('%%I.%%I', schemaname, sequencename)::regclass,
        coalesce(last_value, 0) + %(count)s
    )
FROM pg_sequences
WHERE schemaname = current_schema()
ORDER BY sequencename
"""


def pass_over_ids(conn: Connection, count: int) -> dict[str, int]:
    """Let every table go on ``count`` ids later; return the last ids that are passed over.

    They are by the names of the sequences. Raises Forbidden for a login that does not own these.
    """
    try:
        return dict(conn.execute(_PASS_OVER, {"count": count}).fetchall())
    except errors.InsufficientPrivilege as error:
        message = f"{error.diag.message_primary}: let the owner of the tables do it"
        raise Forbidden(message, code="database_role_missing") from error
