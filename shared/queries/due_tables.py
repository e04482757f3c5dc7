"""Which tables want a look of the scanner, when the next one does, and the lock for a look."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.queries.custom_tables import SELECT_TABLES, read_tables

_TABLES_WITH_LOOK_DUE = """
SELECT DISTINCT due.table_id
FROM (
    (
        SELECT state.table_id
        FROM trigger_state AS state
        JOIN custom_table AS owner ON owner.id = state.table_id
        WHERE state.retired_at IS NULL AND state.next_due_at <= %(now)s AND owner.trashed_at IS NULL
        ORDER BY state.next_due_at
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT state.table_id
        FROM backlog
        JOIN trigger_state AS state ON state.id = backlog.trigger_ref
        JOIN custom_table AS owner ON owner.id = state.table_id
        WHERE backlog.look_at <= %(now)s AND owner.trashed_at IS NULL
        ORDER BY backlog.look_at
        LIMIT %(limit)s
    )
) AS due
ORDER BY due.table_id
"""


def tables_with_look_due(conn: Connection, *, now: datetime, limit: int) -> list[UUID]:
    """Return the live tables of clock triggers and of drips that want a look, in id order.

    Of up to ``limit`` each, those that want it longest.
    """
    parameters = {"now": now, "limit": limit}
    return [table_id for (table_id,) in conn.execute(_TABLES_WITH_LOOK_DUE, parameters)]


_NEXT_LOOK_AT = """
SELECT min(look.at)
FROM (
    (
        SELECT state.next_due_at AS at
        FROM trigger_state AS state
        JOIN custom_table AS owner ON owner.id = state.table_id
        WHERE state.retired_at IS NULL
            AND state.next_due_at IS NOT NULL
            AND owner.trashed_at IS NULL
        ORDER BY state.next_due_at
        LIMIT 1
    )
    UNION ALL
    (
        SELECT backlog.look_at AS at
        FROM backlog
        JOIN trigger_state AS state ON state.id = backlog.trigger_ref
        JOIN custom_table AS owner ON owner.id = state.table_id
        WHERE backlog.look_at IS NOT NULL AND owner.trashed_at IS NULL
        ORDER BY backlog.look_at
        LIMIT 1
    )
) AS look
"""


def next_look_at(conn: Connection) -> datetime | None:
    """Return when the next clock trigger or drip of a live table wants a look; None when none."""
    row = conn.execute(_NEXT_LOOK_AT).fetchone()
    return row[0] if row else None


# Behind for long are also the walks of triggers that are off: the rounds look after those.
_TABLES_BEHIND = """
SELECT DISTINCT owner.id, owner.scanned_at
FROM trigger_state AS state
JOIN custom_table AS owner ON owner.id = state.table_id
WHERE state.kind = 'date_column_reached'
    AND NOT state.caught_up
    AND state.retired_at IS NULL
    AND owner.trashed_at IS NULL
    AND owner.triggers IS NOT NULL
    AND owner.scanned_at < owner.updated_at
ORDER BY owner.scanned_at, owner.id
LIMIT %(limit)s
"""


def list_tables_behind(conn: Connection, *, limit: int) -> list[tuple[UUID, datetime]]:
    """Return live tables, not scanned since they were changed, whose walks have rows to look at.

    With when each was scanned, the longest ago first.
    """
    return conn.execute(_TABLES_BEHIND, {"limit": limit}).fetchall()


_LIST_TO_SCAN = """
SELECT id, scanned_at
FROM custom_table
WHERE triggers IS NOT NULL AND trashed_at IS NULL
ORDER BY scanned_at, id
LIMIT %(limit)s
"""


def list_tables_to_scan(
    conn: Connection, *, limit: int | None = None
) -> list[tuple[UUID, datetime]]:
    """Return live tables with triggers and when each was scanned, the longest ago first."""
    return conn.execute(_LIST_TO_SCAN, {"limit": limit}).fetchall()


# FOR UPDATE would collide with the key share lock of every record insert: a busy table would never
# be scanned, and a tick would stop all inserts.
_TO_CLAIM = """
WHERE id = %(table_id)s AND triggers IS NOT NULL AND trashed_at IS NULL
FOR NO KEY UPDATE SKIP LOCKED
"""

_CLAIM_TABLE = SELECT_TABLES + _TO_CLAIM


def claim_table(conn: Connection, table_id: UUID) -> CustomTable | None:
    """Lock and return a table; None if it is trashed, has no triggers, or another has it."""
    claimed = read_tables(conn, _CLAIM_TABLE, {"table_id": table_id})
    return claimed[0] if claimed else None


_CLAIM_TO_SCAN = """
WITH claimed AS MATERIALIZED (
    SELECT id
    FROM custom_table
    WHERE id = %(table_id)s
        AND scanned_at = %(scanned_at)s
        AND triggers IS NOT NULL
        AND trashed_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE custom_table AS scanned
SET scanned_at = %(now)s
FROM claimed
WHERE scanned.id = claimed.id
RETURNING
    scanned.id, scanned.tenant_id, scanned.channel_id, scanned.name, scanned.columns,
    scanned.columns_made, scanned.approval, scanned.scp_ruled, scanned.triggers, scanned.revision,
    scanned.created_at, scanned.updated_at, scanned.trashed_at
"""


def claim_table_to_scan(
    conn: Connection, table_id: UUID, *, scanned_at: datetime, now: datetime
) -> CustomTable | None:
    """Lock and return a table as ``claim_table`` does, and note that it was scanned ``now``.

    None also if another tick has scanned it after ``scanned_at``.
    """
    parameters = {"table_id": table_id, "scanned_at": scanned_at, "now": now}
    claimed = read_tables(conn, _CLAIM_TO_SCAN, parameters)
    return claimed[0] if claimed else None


_CLAIM_ALL_TO_SCAN = """
WITH claimed AS MATERIALIZED (
    SELECT owner.id
    FROM unnest(%(table_ids)b::uuid[], %(scanned_ats)b::timestamptz[]) AS listed (id, scanned_at)
    CROSS JOIN LATERAL (
        SELECT id
        FROM custom_table
        WHERE id = listed.id
            AND scanned_at = listed.scanned_at
            AND triggers IS NOT NULL
            AND trashed_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS owner
)
UPDATE custom_table
SET scanned_at = %(now)s
WHERE id = ANY(ARRAY(SELECT id FROM claimed))
RETURNING id
"""


def claim_tables_to_scan(
    conn: Connection, tables: Sequence[tuple[UUID, datetime]], *, now: datetime
) -> list[UUID]:
    """Note that tables were scanned ``now``, and return which could be claimed, in no order.

    ``tables`` are ids with the time of the last scan, as ``claim_table_to_scan`` takes them. Of
    none is anything read.
    """
    if not tables:
        return []
    parameters = {
        "table_ids": [table_id for table_id, _ in tables],
        "scanned_ats": [scanned_at for _, scanned_at in tables],
        "now": now,
    }
    return [table_id for (table_id,) in conn.execute(_CLAIM_ALL_TO_SCAN, parameters)]


_MARK_SCANNED = "UPDATE custom_table SET scanned_at = %(now)s WHERE id = %(table_id)s"


def mark_scanned(conn: Connection, table_id: UUID, *, now: datetime) -> None:
    """Note, in a transaction of its own, that a table was scanned although that failed.

    Otherwise one that always fails would stand in front of all others.
    """
    conn.execute(_MARK_SCANNED, {"table_id": table_id, "now": now})
