"""Tables: create, alter, trash, restore. A renamed column keeps its cells, and what names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.column_renames import rename_columns
from shared.domain.columns import Column, read_columns
from shared.domain.faults import under
from shared.domain.records import Approval, CustomTable
from shared.domain.triggers import TriggerState
from shared.errors import Fault, InvalidInput, NotFound, StaleVersion
from shared.queries.custom_tables import (
    find_table,
    get_table,
    insert_table,
    lock_table,
    update_definition,
)
from shared.queries.custom_tables import restore_table as take_out_of_trash
from shared.queries.custom_tables import trash_table as move_to_trash
from shared.queries.former_names import note_former_names
from shared.queries.notifications import notify_due
from shared.queries.tenants import lock_tenant
from shared.queries.trigger_states import (
    list_states,
    lock_all_states,
    rename_schedule,
    restart_walks,
)
from shared.usecases.broken_references import BrokenReference, broken_references
from shared.usecases.follow_renames import follow_renames
from shared.usecases.tenant_limits import TABLES, check_room

MAX_NAME = 200


def create_table(
    conn: Connection,
    *,
    tenant_id: UUID,
    channel_id: UUID | None,
    name: str,
    raw_columns: object,
    columns_from_elsewhere: bool = False,
    approval: Approval = "none",
    now: datetime,
) -> CustomTable:
    """Create a table and return it; ``columns_from_elsewhere`` as ``read_columns`` says.

    Raises InvalidInput, pointers at ``/name`` and ``/columns``, Conflict ``tables_too_many``,
    NotFound ``tenant_not_found``.
    """
    _check_name(name)
    columns, made = _read_columns(
        raw_columns, existing=(), made=0, from_elsewhere=columns_from_elsewhere
    )
    with conn.transaction():
        check_room(conn, tenant_id, TABLES, now=now)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A table as altered, and the definitions that this breaks."""

    table: CustomTable
    breaks: list[BrokenReference]


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
    """Alter a live table as ``change_table`` does, and return it."""
    return change_table(
        conn,
        table_id,
        name=name,
        raw_columns=raw_columns,
        approval=approval,
        now=now,
        expected_revision=expected_revision,
    ).table


def change_table(
    conn: Connection,
    table_id: UUID,
    *,
    name: str | None = None,
    raw_columns: object = None,
    columns_from_elsewhere: bool = False,
    approval: Approval | None = None,
    now: datetime,
    expected_revision: int | None = None,
    dry_run: bool = False,
) -> Alteration:
    """Rename a live table, replace its columns (the whole list) or its approval.

    An entry with the id of a column is that column, whatever its name is now; whatever in the
    tenant names it is rewritten with it: triggers, rules, workflows. What names a dropped column,
    or one whose type does not fit any more, stays, and is told as broken. None leaves a part as it
    is; without a change the revision stays. A dry run stores nothing. ``columns_from_elsewhere`` as
    ``read_columns`` says. Raises as ``create_table`` does, NotFound, StaleVersion.
    """
    with conn.transaction():
        if raw_columns is not None:
            lock_tenant(conn, get_table(conn, table_id).tenant_id)
        before = lock_table(conn, table_id)
        if expected_revision not in (None, before.revision):
            raise StaleVersion(f"table {table_id} was changed meanwhile")
        after = _altered(before, name, approval)
        if raw_columns is not None:
            columns, made = _read_columns(
                raw_columns,
                existing=before.columns,
                made=before.columns_made,
                from_elsewhere=columns_from_elsewhere,
            )
            after = replace(after, columns=columns, columns_made=made)
        renames = _renames(before.columns, after.columns)
        after = _with_renamed_triggers(after, renames)
        breaks = broken_references(conn, before, after, renames)
        if after != before and not dry_run:
            after = _store(conn, before, after, renames, now=now)
        return Alteration(table=after, breaks=breaks)


def _store(
    conn: Connection,
    before: CustomTable,
    after: CustomTable,
    renames: Mapping[str, str],
    *,
    now: datetime,
) -> CustomTable:
    if renames:
        follow_renames(conn, after, renames, now=now)
    if after.columns != before.columns:
        note_former_names(conn, after, renames)
    _follow(conn, before, after, renames)
    return update_definition(conn, after, now=now)


def _altered(table: CustomTable, name: str | None, approval: Approval | None) -> CustomTable:
    if name is not None:
        _check_name(name)
        table = replace(table, name=name)
    if approval is not None:
        table = replace(table, approval=approval)
    return table


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME or not name.strip():
        message = f"a table name must be a text of 1 to {MAX_NAME} characters"
        raise InvalidInput.of([Fault(code="table_invalid", pointer="/name", message=message)])


def _read_columns(
    raw: object, *, existing: tuple[Column, ...], made: int, from_elsewhere: bool
) -> tuple[tuple[Column, ...], int]:
    try:
        return read_columns(raw, existing=existing, made=made, from_elsewhere=from_elsewhere)
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
    if not renames or not isinstance(table.triggers, list):
        return table
    renamed: list[Any] = rename_columns(table.triggers, renames, table_id=table.id)
    return replace(table, triggers=renamed)


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
    """Take a table out of the trash and return it; a live one stays as it is.

    The due index has dropped what came due meanwhile, so that its walks begin anew. Raises
    NotFound, Conflict ``tables_too_many``.
    """
    with conn.transaction():
        trashed = find_table(conn, table_id)
        if trashed is not None and trashed.trashed_at is not None:
            check_room(conn, trashed.tenant_id, TABLES, now=now)
        if take_out_of_trash(conn, table_id, now=now):
            _walk_anew(conn, list_states(conn, table_id))
        return get_table(conn, table_id)
