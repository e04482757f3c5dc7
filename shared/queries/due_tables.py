"""Which tables want a look of the scanner, and when the next one does."""

from datetime import datetime
from uuid import UUID

from psycopg import Connection

_TABLES_WITH_CLOCK_DUE = """
SELECT DISTINCT due.table_id
FROM (
    SELECT state.table_id
    FROM trigger_state AS state
    JOIN custom_table AS owner ON owner.id = state.table_id
    WHERE state.retired_at IS NULL AND state.next_due_at <= %(now)s AND owner.trashed_at IS NULL
    ORDER BY state.next_due_at
    LIMIT %(limit)s
) AS due
ORDER BY due.table_id
"""


def tables_with_clock_due(conn: Connection, *, now: datetime, limit: int) -> list[UUID]:
    """Return the live tables of up to ``limit`` clock triggers that want a look, in id order."""
    parameters = {"now": now, "limit": limit}
    return [table_id for (table_id,) in conn.execute(_TABLES_WITH_CLOCK_DUE, parameters)]


_NEXT_CLOCK_DUE_AT = """
SELECT state.next_due_at
FROM trigger_state AS state
JOIN custom_table AS owner ON owner.id = state.table_id
WHERE state.retired_at IS NULL AND state.next_due_at IS NOT NULL AND owner.trashed_at IS NULL
ORDER BY state.next_due_at
LIMIT 1
"""


def next_clock_due_at(conn: Connection) -> datetime | None:
    """Return when the next clock trigger of a live table wants a look, None when none does."""
    row = conn.execute(_NEXT_CLOCK_DUE_AT).fetchone()
    return row[0] if row else None


_TABLES_BEHIND = """
SELECT DISTINCT state.table_id
FROM trigger_state AS state
JOIN custom_table AS owner ON owner.id = state.table_id
WHERE state.kind = 'date_column_reached'
    AND NOT state.caught_up
    AND state.retired_at IS NULL
    AND owner.trashed_at IS NULL
    AND owner.triggers IS NOT NULL
ORDER BY state.table_id
LIMIT %(limit)s
"""


def tables_with_walks_behind(conn: Connection, *, limit: int) -> list[UUID]:
    """Return live tables with a date trigger whose walk has not yet passed all rows, by id."""
    return [table_id for (table_id,) in conn.execute(_TABLES_BEHIND, {"limit": limit})]
