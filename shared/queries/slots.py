"""Records that are slots: found by the key that says resource and start, added, pruned.

Event runs and the due index go with every write: see ``shared.effects.slot_writes``, the only
caller of the writing functions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.columns import Column
from shared.domain.records import CustomTable, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSlots:
    """Which slots may be pruned: of this roster, and with ``text`` in the column ``status``."""

    roster_id: UUID
    status: Column
    text: str

    def parameters(self) -> dict[str, Any]:
        """Return what the statements ask for."""
        return {
            "roster_id": self.roster_id,
            "status": self.status.id,
            "open": json.dumps(self.text),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSlot:
    """A slot that was made before, also one that a person deleted; ``end`` is its cell.

    ``is_open``: live, open, and of the roster that was asked for.
    """

    id: int
    key: str
    end: str | None
    is_open: bool


_LIST_SLOTS = """
SELECT
    id,
    origin_key AS key,
    data ->> %(end)s AS "end",
    deleted_at IS NULL
    AND roster_id IS NOT DISTINCT FROM %(roster_id)s
    AND data -> %(status)s IS NOT DISTINCT FROM %(open)s::jsonb AS is_open
FROM record
WHERE table_id = %(table_id)s AND origin_key >= %(first)s AND origin_key < %(until)s
ORDER BY origin_key
LIMIT %(limit)s
"""


def list_slots(
    conn: Connection,
    table: CustomTable,
    *,
    open_slots: OpenSlots,
    end: Column,
    first: str,
    until: str,
    limit: int,
) -> list[KnownSlot]:
    """Return the first slots of a table by key, from ``first`` up to, and not at, ``until``."""
    parameters = {
        **open_slots.parameters(),
        "table_id": table.id,
        "end": end.id,
        "first": first,
        "until": until,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(KnownSlot)) as cursor:
        return cursor.execute(_LIST_SLOTS, parameters).fetchall()


_INSERT_SLOTS = """
INSERT INTO record (tenant_id, table_id, data, origin_key, roster_id, created_at, updated_at)
SELECT %(tenant_id)s, %(table_id)s, slot.data, slot.key, %(roster_id)s, %(now)s, %(now)s
FROM ROWS FROM (
    jsonb_array_elements(%(rows)s::jsonb), unnest(%(keys)s::text[])
) WITH ORDINALITY AS slot (data, key, position)
ORDER BY slot.position
ON CONFLICT (table_id, origin_key) WHERE origin_key IS NOT NULL DO NOTHING
RETURNING id, origin_key
"""


def insert_slots(
    conn: Connection,
    table: CustomTable,
    slots: Mapping[str, dict[str, Any]],
    *,
    roster_id: UUID,
    now: datetime,
) -> list[Record]:
    """Insert slots, cells by key, in this order; return those that were not there."""
    parameters = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "roster_id": roster_id,
        "rows": json.dumps(list(slots.values())),
        "keys": list(slots),
        "now": now,
    }
    return [
        Record(
            id=id,
            table_id=table.id,
            data=slots[key],
            version=1,
            created_at=now,
            updated_at=now,
            deleted_at=None,
        )
        for id, key in conn.execute(_INSERT_SLOTS, parameters)
    ]


# What is pruned leaves its key: the slot may come back, as a new record.
_PRUNE_SLOTS = """
WITH gone AS MATERIALIZED (
    SELECT id
    FROM record
    WHERE id = ANY(%(ids)s::bigint[])
        AND table_id = %(table_id)s
        AND deleted_at IS NULL
        AND roster_id = %(roster_id)s
        AND data -> %(status)s = %(open)s::jsonb
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE record
SET deleted_at = %(now)s, origin_key = NULL, version = version + 1, updated_at = %(now)s
FROM gone
WHERE record.id = gone.id
RETURNING
    record.id, record.table_id, record.data, record.version, record.created_at,
    record.updated_at, record.deleted_at
"""


def prune_slots(
    conn: Connection,
    table: CustomTable,
    ids: Sequence[int],
    *,
    open_slots: OpenSlots,
    now: datetime,
) -> list[Record]:
    """Delete those of the slots that are still open, and return them."""
    parameters = {
        **open_slots.parameters(),
        "ids": list(ids),
        "table_id": table.id,
        "now": now,
    }
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        return cursor.execute(_PRUNE_SLOTS, parameters).fetchall()
