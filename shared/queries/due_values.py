"""The due index: which record of which date trigger wants a look, and when.

It only points: the evaluator and the ledger decide. A wrong entry costs a look, a missing one is
filled by the walk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row

from shared.queries.fair_turns import Index, fair_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class DueValue:
    """An entry: ``version`` is the record's, when ``fire_at`` was computed from its cell."""

    trigger_ref: int
    record_id: int
    version: int
    fire_at: datetime


class DuePointer(NamedTuple):
    """Names an entry."""

    trigger_ref: int
    record_id: int


# An older writer never overwrites. The order keeps two writers from waiting in a circle.
_PUT_DUE_VALUES = """
INSERT INTO due_value AS stored (trigger_ref, record_id, tenant_id, version, fire_at)
SELECT trigger_ref, record_id, %(tenant_id)s, version, fire_at
FROM unnest(
    %(trigger_refs)b::bigint[],
    %(record_ids)b::bigint[],
    %(versions)b::int[],
    %(fire_ats)b::timestamptz[]
) AS entry (trigger_ref, record_id, version, fire_at)
ORDER BY trigger_ref, record_id
ON CONFLICT (trigger_ref, record_id) DO UPDATE
SET version = EXCLUDED.version, fire_at = EXCLUDED.fire_at
WHERE stored.version <= EXCLUDED.version
"""


def put_due_values(conn: Connection, *, tenant_id: UUID, entries: Sequence[DueValue]) -> None:
    """Insert or replace entries of one tenant's triggers."""
    if not entries:
        return
    parameters = {
        "tenant_id": tenant_id,
        "trigger_refs": [entry.trigger_ref for entry in entries],
        "record_ids": [entry.record_id for entry in entries],
        "versions": [entry.version for entry in entries],
        "fire_ats": [entry.fire_at for entry in entries],
    }
    conn.execute(_PUT_DUE_VALUES, parameters)


_REMOVE_DUE_VALUES = """
WITH gone AS MATERIALIZED (
    SELECT due_value.trigger_ref, due_value.record_id
    FROM unnest(%(trigger_refs)b::bigint[], %(record_ids)b::bigint[])
        AS entry (trigger_ref, record_id)
    JOIN due_value USING (trigger_ref, record_id)
    ORDER BY due_value.trigger_ref, due_value.record_id
    FOR UPDATE OF due_value
)
DELETE FROM due_value
USING gone
WHERE due_value.trigger_ref = gone.trigger_ref AND due_value.record_id = gone.record_id
"""


def remove_due_values(conn: Connection, pointers: Sequence[DuePointer]) -> None:
    """Delete entries; those that are not there do no harm."""
    if not pointers:
        return
    parameters = {
        "trigger_refs": [pointer.trigger_ref for pointer in pointers],
        "record_ids": [pointer.record_id for pointer in pointers],
    }
    conn.execute(_REMOVE_DUE_VALUES, parameters)


# By its place: what was locked is there until the end of the transaction. An entry that was moved
# between snapshot and lock is at another place, and stays for the next pass.
_TAKEN = """
DELETE FROM due_value
WHERE ctid = ANY(ARRAY(SELECT ctid FROM due))
RETURNING trigger_ref, record_id
"""

_OLDEST = """
WITH due AS MATERIALIZED (
    SELECT ctid
    FROM due_value
    WHERE fire_at <= %(now)s
    ORDER BY fire_at, trigger_ref, record_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
"""

_TAKE_DUE = _OLDEST + _TAKEN


def take_due(conn: Connection, *, now: datetime, limit: int) -> list[DuePointer]:
    """Delete and return up to ``limit`` entries that are due, the oldest; no other pass has them.

    As many as ``limit`` mean a backlog: the next pass takes them fairly, see ``take_due_fairly``.
    """
    with conn.cursor(row_factory=args_row(DuePointer)) as cursor:
        return cursor.execute(_TAKE_DUE, {"now": now, "limit": limit}).fetchall()


_ENTRIES = Index(table="due_value", waits="true", at="fire_at", keys="trigger_ref, record_id")

# Each entry is found by its key: joined, each that is due may be compared with each candidate.
_STILL_DUE = """
due AS MATERIALIZED (
    SELECT entry.ctid
    FROM (SELECT trigger_ref, record_id FROM candidates ORDER BY trigger_ref, record_id) AS wanted
    CROSS JOIN LATERAL (
        SELECT ctid
        FROM due_value
        WHERE trigger_ref = wanted.trigger_ref
            AND record_id = wanted.record_id
            AND fire_at <= %(now)s
        FOR UPDATE SKIP LOCKED
    ) AS entry
)
"""

_TAKE_DUE_FAIRLY = fair_turns(_ENTRIES, now="%(now)s") + _STILL_DUE + _TAKEN


def take_due_fairly(
    conn: Connection, *, now: datetime, limit: int, after: UUID
) -> list[DuePointer]:
    """Delete and return up to ``limit`` due entries, the oldest of each tenant in turn.

    Up to 1000 tenants behind ``after`` in circular order are looked at: give a random one. A short
    batch does not mean that nothing more is due.
    """
    parameters = {"now": now, "limit": limit, "after": after}
    with conn.cursor(row_factory=args_row(DuePointer)) as cursor:
        return cursor.execute(_TAKE_DUE_FAIRLY, parameters).fetchall()


_NEXT_FIRE_AT = """
SELECT fire_at
FROM due_value
ORDER BY fire_at
LIMIT 1
"""


def next_fire_at(conn: Connection) -> datetime | None:
    """Return the earliest instant at which an entry wants a look, None when there is no entry."""
    row = conn.execute(_NEXT_FIRE_AT).fetchone()
    return row[0] if row else None
