"""What is known of one record, or one window, before one trigger: its row, ledger and runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.runs import RunStatus
from shared.domain.triggers import TriggerState
from shared.queries.timeline import (
    WITH_RUN_OF_RECORD,
    WITH_RUN_OF_WINDOW,
    Entry,
    EventRun,
    Occurrence,
)

_OF_WINDOW = """
    AND occurrence.identity = %(identity)s
"""

_FIND_WINDOW = WITH_RUN_OF_WINDOW + _OF_WINDOW


def find_consumed_window(conn: Connection, state: TriggerState, identity: str) -> Occurrence | None:
    """Return the ledger's entry of a window with its run, None if it is not consumed."""
    parameters = {"trigger_ref": state.ref, "identity": identity}
    with conn.cursor(row_factory=class_row(Occurrence)) as cursor:
        return cursor.execute(_FIND_WINDOW, parameters).fetchone()


_OF_RECORD = """
    AND occurrence.record_id = %(record_id)s
ORDER BY occurrence.consumed_at DESC, occurrence.identity DESC
LIMIT %(limit)s
"""

_LIST_OF_RECORD = WITH_RUN_OF_RECORD + _OF_RECORD

_OF_IDENTITY = """
    AND occurrence.record_id = %(record_id)s
    AND occurrence.identity = %(identity)s
"""

_FIND_OF_RECORD = WITH_RUN_OF_RECORD + _OF_IDENTITY


def list_consumed_of_record(
    conn: Connection, state: TriggerState, record_id: int, *, limit: int
) -> list[Occurrence]:
    """Return what a date trigger has consumed of a record with its runs, the newest first."""
    parameters = {
        "table_id": state.table_id,
        "trigger_ref": state.ref,
        "record_id": record_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(Occurrence)) as cursor:
        return cursor.execute(_LIST_OF_RECORD, parameters).fetchall()


def find_consumed(
    conn: Connection, state: TriggerState, record_id: int, identity: str
) -> Occurrence | None:
    """Return the ledger's entry of a record's value with its run, None if it is not consumed."""
    parameters = {
        "table_id": state.table_id,
        "trigger_ref": state.ref,
        "record_id": record_id,
        "identity": identity,
    }
    with conn.cursor(row_factory=class_row(Occurrence)) as cursor:
        return cursor.execute(_FIND_OF_RECORD, parameters).fetchone()


_FIND_ENTRY = """
SELECT record_id, fire_at
FROM due_value
WHERE trigger_ref = %(trigger_ref)s AND record_id = %(record_id)s
"""


def find_entry(conn: Connection, trigger_ref: int, record_id: int) -> Entry | None:
    """Return the entry of a record in the due index, None without one."""
    parameters = {"trigger_ref": trigger_ref, "record_id": record_id}
    with conn.cursor(row_factory=class_row(Entry)) as cursor:
        return cursor.execute(_FIND_ENTRY, parameters).fetchone()


_FIND_LAST_RUN = """
SELECT id, record_id, identity, status, error, created_at
FROM trigger_run
WHERE table_id = %(table_id)s
    AND record_id = %(record_id)s
    AND trigger_id = %(trigger_id)s
ORDER BY id DESC
LIMIT 1
"""


def find_last_run(
    conn: Connection, table_id: UUID, trigger_id: str, record_id: int
) -> EventRun | None:
    """Return the newest run of a trigger for a record, None without one."""
    parameters = {"table_id": table_id, "trigger_id": trigger_id, "record_id": record_id}
    with conn.cursor(row_factory=class_row(EventRun)) as cursor:
        return cursor.execute(_FIND_LAST_RUN, parameters).fetchone()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """The run that fences a clock trigger."""

    id: int
    status: RunStatus


_FIND_ACTIVE_RUN = """
SELECT id, status
FROM trigger_run
WHERE trigger_ref = %(trigger_ref)s
    AND status IN ('pending', 'running')
    AND kind IN ('interval', 'daily', 'cron')
"""


def find_active_run(conn: Connection, trigger_ref: int) -> ActiveRun | None:
    """Return the pending or running run of a clock trigger, None without one."""
    with conn.cursor(row_factory=class_row(ActiveRun)) as cursor:
        return cursor.execute(_FIND_ACTIVE_RUN, {"trigger_ref": trigger_ref}).fetchone()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRow:
    """A record before one trigger: a cell as text, and some cells by column id, as JSON text."""

    record_id: int
    version: int
    deleted_at: datetime | None
    cell: str | None
    cells: str


_FIND_ROW = """
SELECT
    id AS record_id,
    version,
    deleted_at,
    data ->> %(column_id)s AS cell,
    coalesce(
        (
            SELECT json_object_agg(named.id, record.data -> named.id)::text
            FROM unnest(%(column_ids)b::text[]) AS named (id)
        ),
        '{}'
    ) AS cells
FROM record
WHERE id = %(record_id)s AND table_id = %(table_id)s
"""


def find_row(
    conn: Connection,
    table_id: UUID,
    record_id: int,
    *,
    column_id: str | None,
    column_ids: Sequence[str],
) -> OneRow | None:
    """Return a record of the table, deleted or not, None if it has none such.

    ``column_id`` is the column of ``cell``. Nothing that the record holds can make it fail.
    """
    parameters = {
        "table_id": table_id,
        "record_id": record_id,
        "column_id": column_id or "",
        "column_ids": list(column_ids),
    }
    with conn.cursor(row_factory=class_row(OneRow)) as cursor:
        return cursor.execute(_FIND_ROW, parameters).fetchone()
