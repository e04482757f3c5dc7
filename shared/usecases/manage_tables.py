"""Tables: create, alter, trash, restore. A renamed column keeps its cells and its triggers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.column_renames import rename_columns, rename_written_columns
from shared.domain.columns import Column, read_columns
from shared.domain.faults import under
from shared.domain.records import Approval, CustomTable
from shared.domain.triggers import TriggerState
from shared.errors import Fault, InvalidInput, NotFound, StaleVersion
from shared.queries.custom_tables import (
    get_table,
    insert_table,
    lock_table,
    lock_tables_that_create,
    store_triggers,
    update_definition,
)
from shared.queries.custom_tables import restore_table as take_out_of_trash
from shared.queries.custom_tables import trash_table as move_to_trash
from shared.queries.notifications import notify_due
from shared.queries.trigger_states import (
    list_states,
    lock_all_states,
    rename_schedule,
    restart_walks,
)

MAX_NAME = 200


def create_table(
    conn: Connection,
    *,
    tenant_id: UUID,
    channel_id: UUID | None,
    name: str,
    raw_columns: object,
    approval: Approval = "none",
    now: datetime,
) -> CustomTable:
    """Create a table and return it. Raises InvalidInput, pointers at ``/name`` and ``/columns``."""
    _check_name(name)
    columns, made = _read_columns(raw_columns, existing=(), made=0)
    return insert_table(
        conn,
        tenant_id=tenant_id,
        channel_id=channel_id,
        name=name,
        columns=columns,
        columns_made=made,
        approval=approval,
        now=now,
    )


def alter_table(
    conn: Connection,
    table_id: UUID,
    *,
    name: str | None = None,
    raw_columns: object = None,
    approval: Approval | None = None,
    now: datetime,
    expected_revision: int | None = None,
) -> CustomTable:
    """Rename a live table, replace its columns (the whole list) or its approval, and return it.

    An entry with the id of a column is that column, whatever its name is now; all triggers of the
    tenant that name it are rewritten with it. A trigger that names a dropped column stays, broken.
    None leaves a part as it is; without a change the revision stays. Raises as ``create_table``
    does, NotFound, StaleVersion.
    """
    with conn.transaction():
        before = lock_table(conn, table_id)
        if expected_revision not in (None, before.revision):
            raise StaleVersion(f"table {table_id} was changed meanwhile")
        after = _altered(before, name, raw_columns, approval)
        if after == before:
            return before
        renames = _renames(before.columns, after.columns)
        if renames:
            after = _with_renamed_triggers(after, renames)
            _rename_elsewhere(conn, after, renames, now=now)
        _follow(conn, before, after, renames)
        return update_definition(conn, after, now=now)


def _altered(
    table: CustomTable, name: str | None, raw_columns: object, approval: Approval | None
) -> CustomTable:
    if name is not None:
        _check_name(name)
        table = replace(table, name=name)
    if raw_columns is not None:
        columns, made = _read_columns(raw_columns, existing=table.columns, made=table.columns_made)
        table = replace(table, columns=columns, columns_made=made)
    if approval is not None:
        table = replace(table, approval=approval)
    return table


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME or not name.strip():
        message = f"a table name must be a text of 1 to {MAX_NAME} characters"
        raise InvalidInput.of([Fault(code="table_invalid", pointer="/name", message=message)])


def _read_columns(
    raw: object, *, existing: tuple[Column, ...], made: int
) -> tuple[tuple[Column, ...], int]:
    try:
        return read_columns(raw, existing=existing, made=made)
    except InvalidInput as error:
        raise InvalidInput.of(under("/columns", error.faults)) from error


def _renames(before: Sequence[Column], after: Sequence[Column]) -> dict[str, str]:
    """Return old name to new name of the columns that are called otherwise now."""
    names = {column.id: column.name for column in before}
    return {
        names[column.id]: column.name
        for column in after
        if column.id in names and names[column.id] != column.name
    }


def _with_renamed_triggers(table: CustomTable, renames: Mapping[str, str]) -> CustomTable:
    if not isinstance(table.triggers, list):
        return table
    renamed: list[Any] = rename_columns(table.triggers, renames, table_id=table.id)
    return replace(table, triggers=renamed)


def _rename_elsewhere(
    conn: Connection, table: CustomTable, renames: Mapping[str, str], *, now: datetime
) -> None:
    """Rewrite the triggers of other tables that create records in this one."""
    for other in lock_tables_that_create(conn, table.tenant_id):
        if other.id == table.id or not isinstance(other.triggers, list):
            continue
        renamed: list[Any] = rename_written_columns(other.triggers, renames, table_id=table.id)
        if renamed != other.triggers:
            store_triggers(conn, other.id, triggers=renamed, now=now)


def _follow(
    conn: Connection, before: CustomTable, after: CustomTable, renames: Mapping[str, str]
) -> None:
    """Let the states go with the columns: a rename keeps them, other cells mean a new walk."""
    states = lock_all_states(conn, after.id)
    for state in states:
        column = str(state.schedule.get("column"))
        if column in renames and state.kind == "date_column_reached":
            renamed = {**state.schedule, "column": renames[column]}
            rename_schedule(conn, state.ref, schedule=renamed)
    if {(column.id, column.type) for column in before.columns} != {
        (column.id, column.type) for column in after.columns
    }:
        _walk_anew(conn, [state for state in states if state.retired_at is None])


def _walk_anew(conn: Connection, states: Sequence[TriggerState]) -> None:
    restart_walks(conn, [state.ref for state in states])
    notify_due(conn)


def trash_table(conn: Connection, table_id: UUID, *, now: datetime) -> None:
    """Move a live table to the trash: its triggers are silent, its pending runs will fail.

    Raises NotFound.
    """
    if not move_to_trash(conn, table_id, now=now):
        raise NotFound(f"table {table_id} does not exist", code="table_not_found")


def restore_table(conn: Connection, table_id: UUID, *, now: datetime) -> CustomTable:
    """Take a table out of the trash and return it; a live one stays as it is. Raises NotFound.

    The due index has dropped what came due meanwhile, so that its walks begin anew.
    """
    with conn.transaction():
        if take_out_of_trash(conn, table_id, now=now):
            _walk_anew(conn, list_states(conn, table_id))
        return get_table(conn, table_id)
