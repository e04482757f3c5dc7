"""The durable state of schedule triggers: anchor, last window, next look, cursor, retirement.

A state is never deleted: a trigger that returns under its id finds it again. Whoever changes one
holds its table's row or has locked the states.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from shared.domain.on_existing import Backlog
from shared.domain.triggers import ScheduleKind, TriggerState

_SELECT = """
SELECT
    id AS ref,
    trigger_state.tenant_id,
    table_id,
    trigger_id,
    kind,
    schedule,
    anchor_at,
    last_window_at,
    next_due_at,
    cursor_created_at,
    cursor_record_id,
    caught_up,
    retired_at,
    backlog.mode,
    backlog.before_at,
    backlog.per_minute,
    backlog.fired_at,
    backlog.fired,
    backlog.look_at
FROM trigger_state
LEFT JOIN backlog ON backlog.trigger_ref = trigger_state.id
"""
_BACKLOG = ("mode", "before_at", "per_minute", "fired_at", "fired", "look_at")


def _states(
    conn: Connection, statement: LiteralString, parameters: Mapping[str, Any]
) -> list[TriggerState]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return [_state(row) for row in cursor.execute(statement, parameters)]


def _state(row: dict[str, Any]) -> TriggerState:
    cursor = (row.pop("cursor_created_at"), row.pop("cursor_record_id"))
    mode, before, *drip = [row.pop(name) for name in _BACKLOG]
    return TriggerState(
        **row,
        cursor=None if cursor[0] is None else cursor,
        backlog=None if mode is None else _backlog(mode, before, *drip),
    )


def _backlog(
    mode: Literal["consume", "drip"],
    before: datetime,
    per_minute: int | None,
    fired_at: datetime | None,
    fired: int,
    look_at: datetime | None,
) -> Backlog:
    return Backlog(
        mode=mode,
        before=before,
        per_minute=per_minute,
        fired_at=fired_at,
        fired=fired,
        look_at=look_at,
    )


_OF_TABLE = """
WHERE table_id = %(table_id)s AND retired_at IS NULL
ORDER BY id
"""

_LIST_STATES = _SELECT + _OF_TABLE


def list_states(conn: Connection, table_id: UUID) -> list[TriggerState]:
    """Return the states of the triggers that stand in the table, by ref."""
    return _states(conn, _LIST_STATES, {"table_id": table_id})


_OF_TABLES = """
WHERE table_id = ANY(%(table_ids)b::uuid[]) AND retired_at IS NULL
ORDER BY id
"""

_LIST_STATES_OF_TABLES = _SELECT + _OF_TABLES


def list_states_of_tables(conn: Connection, table_ids: Sequence[UUID]) -> list[TriggerState]:
    """Return the states of the triggers that stand in these tables, by ref."""
    return _states(conn, _LIST_STATES_OF_TABLES, {"table_ids": list(table_ids)})


_EVER_OF_TABLES = """
WHERE table_id = ANY(%(table_ids)b::uuid[])
ORDER BY id
"""

_LIST_ALL_STATES = _SELECT + _EVER_OF_TABLES


def list_all_states(conn: Connection, table_ids: Sequence[UUID]) -> list[TriggerState]:
    """Return all states that these tables ever had, retired ones too, by ref."""
    return _states(conn, _LIST_ALL_STATES, {"table_ids": list(table_ids)})


_LATE = """
WHERE retired_at IS NULL
    AND next_due_at <= %(look_before)s
    AND coalesce(last_window_at, anchor_at) < %(window_before)s
    AND EXISTS (
        SELECT FROM custom_table
        WHERE custom_table.id = trigger_state.table_id AND custom_table.trashed_at IS NULL
    )
ORDER BY next_due_at
LIMIT %(limit)s
"""

_LIST_LATE_STATES = _SELECT + _LATE


def list_late_states(
    conn: Connection, *, look_before: datetime, window_before: datetime, limit: int
) -> list[TriggerState]:
    """Return clock triggers of live tables that wanted a look before the one instant.

    Only those whose last window lies before the other; those that wait for the longest first.
    """
    parameters = {"look_before": look_before, "window_before": window_before, "limit": limit}
    return _states(conn, _LIST_LATE_STATES, parameters)


_WITH_RETIRED = """
WHERE table_id = %(table_id)s
ORDER BY id
FOR NO KEY UPDATE OF trigger_state
"""

_LOCK_ALL_STATES = _SELECT + _WITH_RETIRED


def lock_all_states(conn: Connection, table_id: UUID) -> list[TriggerState]:
    """Lock and return all states the table ever had, retired ones too, by ref."""
    return _states(conn, _LOCK_ALL_STATES, {"table_id": table_id})


_BY_REF = """
WHERE id = ANY(%(refs)b::bigint[])
ORDER BY id
"""

_LIST_STATES_BY_REF = _SELECT + _BY_REF


def list_states_by_ref(conn: Connection, refs: Sequence[int]) -> list[TriggerState]:
    """Return these states, retired ones too, by ref."""
    return _states(conn, _LIST_STATES_BY_REF, {"refs": list(refs)})


_INSERT_STATE = """
INSERT INTO trigger_state (
    tenant_id, table_id, trigger_id, kind, schedule, anchor_at, next_due_at
)
VALUES (
    %(tenant_id)s, %(table_id)s, %(trigger_id)s, %(kind)s, %(schedule)s, %(anchor_at)s,
    %(next_due_at)s
)
RETURNING id
"""


def insert_state(
    conn: Connection,
    *,
    tenant_id: UUID,
    table_id: UUID,
    trigger_id: str,
    kind: ScheduleKind,
    schedule: Mapping[str, Any],
    anchor_at: datetime,
    next_due_at: datetime | None,
) -> int:
    """Insert the state of a new schedule trigger and return its ref; its walk is to begin.

    ``next_due_at`` is None for a date trigger.
    """
    parameters = {
        "tenant_id": tenant_id,
        "table_id": table_id,
        "trigger_id": trigger_id,
        "kind": kind,
        "schedule": Jsonb(schedule),
        "anchor_at": anchor_at,
        "next_due_at": next_due_at,
    }
    row = conn.execute(_INSERT_STATE, parameters).fetchone()
    assert row is not None
    ref: int = row[0]
    return ref


_START_ANEW = """
UPDATE trigger_state
SET schedule = %(schedule)s,
    anchor_at = %(anchor_at)s,
    next_due_at = %(next_due_at)s,
    last_window_at = NULL,
    cursor_created_at = NULL,
    cursor_record_id = NULL,
    caught_up = false
WHERE id = %(ref)s
"""


def start_anew(
    conn: Connection,
    ref: int,
    *,
    schedule: Mapping[str, Any],
    anchor_at: datetime,
    next_due_at: datetime | None,
) -> None:
    """Give the state an edited schedule: windows count from the new anchor, the walk restarts."""
    parameters = {
        "ref": ref,
        "schedule": Jsonb(schedule),
        "anchor_at": anchor_at,
        "next_due_at": next_due_at,
    }
    conn.execute(_START_ANEW, parameters)


_RENAME_SCHEDULE = "UPDATE trigger_state SET schedule = %(schedule)s WHERE id = %(ref)s"


def rename_schedule(conn: Connection, ref: int, *, schedule: Mapping[str, Any]) -> None:
    """Store the schedule in other words, after its column was renamed: nothing else changes."""
    conn.execute(_RENAME_SCHEDULE, {"ref": ref, "schedule": Jsonb(schedule)})


_RETIRE = """
UPDATE trigger_state
SET retired_at = %(now)s
WHERE id = ANY(%(refs)b::bigint[]) AND retired_at IS NULL
"""


def retire(conn: Connection, refs: Sequence[int], *, now: datetime) -> None:
    """Retire the states of triggers that left their table; state and ledger stay."""
    conn.execute(_RETIRE, {"refs": list(refs), "now": now})


_REVIVE = """
UPDATE trigger_state
SET retired_at = NULL,
    next_due_at = %(next_due_at)s,
    cursor_created_at = NULL,
    cursor_record_id = NULL,
    caught_up = false
WHERE id = %(ref)s
"""


def revive(conn: Connection, ref: int, *, next_due_at: datetime | None) -> None:
    """Bring a retired state back as it was; its walk restarts, since writes passed it by."""
    conn.execute(_REVIVE, {"ref": ref, "next_due_at": next_due_at})


_RESTART_WALKS = """
UPDATE trigger_state
SET cursor_created_at = NULL, cursor_record_id = NULL, caught_up = false
WHERE id = ANY(%(refs)b::bigint[]) AND kind = 'date_column_reached'
"""


def restart_walks(conn: Connection, refs: Sequence[int]) -> None:
    """Let the walks of these date triggers begin anew: the due index may lack rows of theirs."""
    conn.execute(_RESTART_WALKS, {"refs": list(refs)})


_MOVE_CURSOR = """
UPDATE trigger_state
SET cursor_created_at = coalesce(%(created_at)s, cursor_created_at),
    cursor_record_id = coalesce(%(record_id)s, cursor_record_id),
    caught_up = caught_up OR %(caught_up)s
WHERE id = %(ref)s
"""


def move_cursor(
    conn: Connection, ref: int, *, cursor: tuple[datetime, int] | None, caught_up: bool
) -> None:
    """Note the last row the walk looked at (None: no row), and whether it has now passed all.

    Once caught up, it stays so until the walk restarts.
    """
    created_at, record_id = cursor or (None, None)
    parameters = {
        "ref": ref,
        "created_at": created_at,
        "record_id": record_id,
        "caught_up": caught_up,
    }
    conn.execute(_MOVE_CURSOR, parameters)


_CONSUME_WINDOW = """
UPDATE trigger_state
SET last_window_at = greatest(last_window_at, %(window_at)s), next_due_at = %(next_due_at)s
WHERE id = %(ref)s
"""


def consume_window(
    conn: Connection, ref: int, *, window_at: datetime, next_due_at: datetime | None
) -> None:
    """Move the last consumed window of a clock trigger forward, and its next look."""
    parameters = {"ref": ref, "window_at": window_at, "next_due_at": next_due_at}
    conn.execute(_CONSUME_WINDOW, parameters)


_SET_NEXT_DUE = """
UPDATE trigger_state
SET next_due_at = %(next_due_at)s
WHERE id = %(ref)s AND next_due_at IS DISTINCT FROM %(next_due_at)s
"""


def set_next_due(conn: Connection, ref: int, *, next_due_at: datetime | None) -> None:
    """Say when the due pass is to look at a clock trigger; None: not before it is set again."""
    conn.execute(_SET_NEXT_DUE, {"ref": ref, "next_due_at": next_due_at})


_POSTPONE_LOOKS = """
UPDATE trigger_state
SET next_due_at = %(until)s
WHERE table_id = %(table_id)s AND retired_at IS NULL AND next_due_at <= %(now)s
"""


def postpone_looks(conn: Connection, table_id: UUID, *, until: datetime, now: datetime) -> None:
    """Let the due pass leave the clock triggers of a table alone until then, after a failure."""
    conn.execute(_POSTPONE_LOOKS, {"table_id": table_id, "until": until, "now": now})
