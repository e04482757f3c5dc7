"""What the evaluator sees of records: their order, one date cell, and the cells ``when`` names."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row

from shared.queries.arrays import numbers_text, prepare

Cursor = tuple[datetime, int]
"""A place in the order of the walk: the ``created_at`` and id of a record, there or not."""

_BEGINNING = (datetime.min.replace(tzinfo=UTC), 0)
_END = (datetime.max.replace(tzinfo=UTC), 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The next records of a walk: how many, where the last one stands, which want a look."""

    count: int
    last: Cursor | None
    record_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a walk asks of the records of a table: which of them want a look.

    All, or with ``before`` those whose cell, as text, is less, unless its first ``identity_length``
    characters, T read as a blank, are an identity that the trigger has consumed of the record.
    """

    table_id: UUID
    trigger_ref: int
    column_id: str
    identity_length: int
    before: str | None

    def parameters(self) -> dict[str, Any]:
        """Return the audit as parameters of a statement."""
        return {
            "table_id": self.table_id,
            "trigger_ref": self.trigger_ref,
            "column_id": self.column_id,
            "identity_length": self.identity_length,
            "before": self.before,
        }


# A cell costs several times its row's key, and to read it here many times what asking it does
# there. COLLATE "C" compares by code point, as the bound is meant. The ledger is asked by a value
# and not by EXISTS, for which the planner may read all of it.
_WANTS_A_LOOK = """
    CASE
        WHEN %(before)s::text IS NULL THEN true
        WHEN (data ->> %(column_id)s) COLLATE "C" < %(before)s THEN (
            SELECT true
            FROM occurrence
            WHERE trigger_ref = %(trigger_ref)s
                AND record_id = record.id
                AND identity = replace(left(data ->> %(column_id)s, %(identity_length)s), 'T', ' ')
                AND length(data ->> %(column_id)s) >= %(identity_length)s
            LIMIT 1
        ) IS NULL
        ELSE false
    END AS wants_a_look
FROM record
"""

_PLACES = """
WITH stretch AS MATERIALIZED (
    SELECT
        id,
        created_at,
"""

_OF_STRETCH = """
    WHERE table_id = %(table_id)s
        AND deleted_at IS NULL
        AND (created_at, id) > (%(after_created_at)s, %(after_id)s)
        AND (created_at, id) <= (%(up_to_created_at)s, %(up_to_id)s)
    ORDER BY created_at, id
    LIMIT %(limit)s
)
SELECT
    count(*),
    max(created_at),
    max(id) FILTER (WHERE created_at = (SELECT max(created_at) FROM stretch)),
    coalesce(array_agg(id) FILTER (WHERE wants_a_look), '{}')
FROM stretch
"""

_STRETCH = _PLACES + _WANTS_A_LOOK + _OF_STRETCH


def walk_stretch(
    conn: Connection, audit: Audit, *, after: Cursor | None, up_to: Cursor | None, limit: int
) -> Stretch:
    """Return the first ``limit`` live records by (created_at, id) behind ``after``, to ``up_to``.

    None is the beginning, or the end, of the table. Nothing that a record holds can make it fail.
    """
    after_created_at, after_id = after or _BEGINNING
    up_to_created_at, up_to_id = up_to or _END
    parameters = audit.parameters() | {
        "after_created_at": after_created_at,
        "after_id": after_id,
        "up_to_created_at": up_to_created_at,
        "up_to_id": up_to_id,
        "limit": limit,
    }
    row = conn.execute(_STRETCH, parameters).fetchone()
    assert row is not None
    count, created_at, record_id, record_ids = row
    last = None if count == 0 else (created_at, record_id)
    return Stretch(count=count, last=last, record_ids=record_ids)


# In no order, so that nothing is sorted: it is all of them, or it does not count.
_IDS = """
SELECT count(*), coalesce(array_agg(id) FILTER (WHERE wants_a_look), '{}')
FROM (
    SELECT
        id,
"""

_OF_TABLE = """
    WHERE table_id = %(table_id)s AND deleted_at IS NULL
    LIMIT %(limit)s
) AS record
"""

_WHOLE = _IDS + _WANTS_A_LOOK + _OF_TABLE


def walk_whole(conn: Connection, audit: Audit, *, limit: int) -> list[int] | None:
    """Return which live records of a table want a look, as ``walk_stretch`` does; in no order.

    None if there are ``limit`` or more.
    """
    row = conn.execute(_WHOLE, audit.parameters() | {"limit": limit}).fetchone()
    assert row is not None
    count, record_ids = row
    return record_ids if count < limit else None


class WalkRow(NamedTuple):
    """A live record before a date trigger; a tuple, since a page has up to 10,000 of them.

    ``cell`` is the schedule's column as text, which is a date only if the cell is a text. ``cells``
    are those that were asked for, by column id, as JSON. ``look_at`` is the instant of the due
    index's entry, None without one.
    """

    record_id: int
    version: int
    cell: str | None
    look_at: datetime | None
    cells: str = "{}"

    @property
    def data(self) -> dict[str, Any]:
        """The cells, read anew at every look: as objects, a page may take 20 times its text."""
        data: dict[str, Any] = json.loads(self.cells)
        return data


_CELL_AND_ENTRY = """
SELECT record.id, record.version, record.data ->> %(column_id)s, due_value.fire_at
"""

_CELL = """
SELECT record.id, record.version, record.data ->> %(column_id)s, NULL
"""

_AND_CELLS_OF_WHEN = """
    , (
        SELECT json_object_agg(named.id, record.data -> named.id)::text
        FROM unnest(%(when_ids)b::text[]) AS named (id)
    )
"""

_OF_RECORD = """
FROM record
"""

_AND_ENTRY = """
LEFT JOIN due_value
    ON due_value.trigger_ref = %(trigger_ref)s AND due_value.record_id = record.id
"""

_BY_ID = """
WHERE record.id = ANY(%(record_ids)s::bigint[])
    AND record.table_id = %(table_id)s
    AND record.deleted_at IS NULL
ORDER BY record.id
"""

# By whether entries of the due index are looked for, and cells of ``when`` are read.
_ROWS: dict[tuple[bool, bool], LiteralString] = {
    (True, True): _CELL_AND_ENTRY + _AND_CELLS_OF_WHEN + _OF_RECORD + _AND_ENTRY + _BY_ID,
    (True, False): _CELL_AND_ENTRY + _OF_RECORD + _AND_ENTRY + _BY_ID,
    (False, True): _CELL + _AND_CELLS_OF_WHEN + _OF_RECORD + _BY_ID,
    (False, False): _CELL + _OF_RECORD + _BY_ID,
}


def walk_rows(
    conn: Connection,
    *,
    table_id: UUID,
    trigger_ref: int,
    column_id: str,
    when_ids: Sequence[str],
    record_ids: Sequence[int],
    taken: bool = False,
) -> list[WalkRow]:
    """Return those of these records of the table that are live, by id.

    ``taken``: they have no entry in the due index any more, and none is looked for.
    """
    parameters = {
        "table_id": table_id,
        "trigger_ref": trigger_ref,
        "column_id": column_id,
        "when_ids": list(when_ids),
        "record_ids": numbers_text(record_ids),
    }
    statement = _ROWS[not taken, bool(when_ids)]
    with conn.cursor(row_factory=args_row(WalkRow)) as rows:
        return rows.execute(statement, parameters, prepare=prepare(record_ids)).fetchall()
