"""Records: written with a version that grows, listed by (created_at, id), read for evaluation.

Event runs and the due index go with every write: see ``shared.effects.record_writes``, the only
caller of the writing functions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.columns import size_of
from shared.domain.conditions import Predicate, matches
from shared.domain.records import CustomTable, Record

# The server refuses a JSON value beyond 256 MB.
_STATEMENT_BYTES = 32_000_000

# Text is a third faster than jsonb[], whose elements the driver quotes one by one.
_INSERT_RECORDS = """
INSERT INTO record (tenant_id, table_id, data, origin_key, created_at, updated_at)
SELECT %(tenant_id)s, %(table_id)s, row.data, %(origin_key)s, %(now)s, %(now)s
FROM jsonb_array_elements(%(rows)s::jsonb) WITH ORDINALITY AS row (data, position)
ORDER BY row.position
ON CONFLICT (table_id, origin_key) WHERE origin_key IS NOT NULL DO NOTHING
RETURNING id
"""


def insert_records(
    conn: Connection,
    table: CustomTable,
    rows: Sequence[dict[str, Any]],
    *,
    now: datetime,
    origin_key: str | None = None,
) -> list[Record]:
    """Insert records in this order and return them.

    With ``origin_key`` it is one row, and [] comes back when it was inserted before.
    """
    texts = [json.dumps(row) for row in rows]
    half = len(rows) // 2
    if half and sum(map(len, texts)) > _STATEMENT_BYTES:
        first = insert_records(conn, table, rows[:half], now=now, origin_key=origin_key)
        return first + insert_records(conn, table, rows[half:], now=now, origin_key=origin_key)
    parameters = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "rows": f"[{','.join(texts)}]",
        "origin_key": origin_key,
        "now": now,
    }
    ids = conn.execute(_INSERT_RECORDS, parameters).fetchall()
    return [
        Record(
            id=id,
            table_id=table.id,
            data=data,
            version=1,
            created_at=now,
            updated_at=now,
            deleted_at=None,
        )
        for (id,), data in zip(ids, rows, strict=False)
    ]


_FIND_BY_ORIGIN = """
SELECT id, table_id, data, version, created_at, updated_at, deleted_at
FROM record
WHERE table_id = %(table_id)s AND origin_key = %(origin_key)s
"""


def find_by_origin(conn: Connection, table: CustomTable, origin_key: str) -> Record | None:
    """Return the record an action made before under this key, deleted or not, or None."""
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        parameters = {"table_id": table.id, "origin_key": origin_key}
        return cursor.execute(_FIND_BY_ORIGIN, parameters).fetchone()


_FIND_RECORD = """
SELECT id, table_id, data, version, created_at, updated_at, deleted_at
FROM record
WHERE id = %(record_id)s AND table_id = %(table_id)s AND deleted_at IS NULL
"""


def find_record(conn: Connection, table: CustomTable, record_id: int) -> Record | None:
    """Return a live record of the table, or None."""
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        parameters = {"table_id": table.id, "record_id": record_id}
        return cursor.execute(_FIND_RECORD, parameters).fetchone()


_LOCK_RECORD = """
SELECT id, table_id, data, version, created_at, updated_at, deleted_at
FROM record
WHERE id = %(record_id)s AND table_id = %(table_id)s
FOR NO KEY UPDATE
"""


def lock_record(conn: Connection, table: CustomTable, record_id: int) -> Record | None:
    """Lock and return a record of the table, deleted or not, or None."""
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        parameters = {"table_id": table.id, "record_id": record_id}
        return cursor.execute(_LOCK_RECORD, parameters).fetchone()


_WRITE_RECORD = """
UPDATE record
SET data = %(data)s, deleted_at = %(deleted_at)s, version = version + 1, updated_at = %(now)s
WHERE id = %(record_id)s AND version = %(version)s
RETURNING id, table_id, data, version, created_at, updated_at, deleted_at
"""


def write_record(
    conn: Connection,
    record: Record,
    *,
    data: Mapping[str, Any],
    deleted_at: datetime | None,
    now: datetime,
) -> Record:
    """Store a further version of a locked record and return it."""
    parameters = {
        "record_id": record.id,
        "version": record.version,
        "data": Jsonb(data),
        "deleted_at": deleted_at,
        "now": now,
    }
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        written = cursor.execute(_WRITE_RECORD, parameters).fetchone()
    assert written is not None, "the record is locked"
    return written


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """A page of a listing; ``after`` is where the next one begins, None at the end.

    ``seen``: how many rows were looked at, those among them that do not match.
    """

    records: list[Record]
    after: tuple[datetime, int] | None
    seen: int


_BEGINNING = (datetime.min.replace(tzinfo=UTC), 0)
# A page of the usual length and the one record that tells whether others follow, in one reading.
_BATCH = 101
MAX_ROWS = 10_000
"""Rows that one listing looks at, and one more, which tells whether others follow."""
MAX_CHARACTERS = 8_000_000
"""Characters that one listing reads, but for its last row."""

_LIST_RECORDS = """
SELECT id, table_id, data, version, created_at, updated_at, deleted_at
FROM record
WHERE table_id = %(table_id)s
    AND deleted_at IS NULL
    AND (created_at, id) > (%(created_at)s, %(record_id)s)
ORDER BY created_at, id
LIMIT %(limit)s
"""


def _next_records(
    conn: Connection, table: CustomTable, after: tuple[datetime, int], limit: int
) -> list[Record]:
    created_at, record_id = after
    parameters = {
        "table_id": table.id,
        "created_at": created_at,
        "record_id": record_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        return cursor.execute(_LIST_RECORDS, parameters).fetchall()


def list_records(
    conn: Connection,
    table: CustomTable,
    *,
    after: tuple[datetime, int] | None = None,
    limit: int,
    predicates: Sequence[Predicate] = (),
) -> RecordPage:
    """Return up to ``limit`` live records that match, by (created_at, id), behind ``after``.

    How cells compare is the domain's rule alone, so that rows are read and matched here; one call
    looks at 10,000 rows and 8 million characters at most. A page may thus be short, or empty,
    although others follow.
    """
    found: list[Record] = []
    looked_at = after or _BEGINNING
    size = _BATCH if predicates else min(limit + 1, _BATCH)
    room = MAX_CHARACTERS
    seen = 0
    while seen <= MAX_ROWS:
        wanted = min(size, MAX_ROWS + 1 - seen)
        batch = _next_records(conn, table, looked_at, wanted)
        for record in batch:
            seen += 1
            looked_at = _key(record)
            if matches(predicates, record.data):
                found.append(record)
            if len(found) > limit:
                after = _key(found[limit - 1])
                return RecordPage(records=found[:limit], after=after, seen=seen)
            room -= size_of(record.data)
            if room < 0:
                return RecordPage(records=found, after=looked_at, seen=seen)
        if len(batch) < wanted:
            return RecordPage(records=found, after=None, seen=seen)
    return RecordPage(records=found, after=looked_at, seen=seen)


def _key(record: Record) -> tuple[datetime, int]:
    return record.created_at, record.id


# The planner fears that an index sends it all over the disk, and where one table has most of the
# records it would read them all: with half as much again of time, and twice the work. The function
# keeps to the index; which tables it may count is told by the look at the table.
_COUNT_LIVE = """
SELECT count_live_records(id)
FROM custom_table
WHERE id = %(table_id)s
"""


def count_live(conn: Connection, table_id: UUID) -> int:
    """Return how many live records the table has, exactly: a scan of its part of an index."""
    row = conn.execute(_COUNT_LIVE, {"table_id": table_id}).fetchone()
    return row[0] if row else 0
