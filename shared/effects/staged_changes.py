"""The approval gate: what actions want to write is staged, and applied when somebody approved it.

The receipt of an action commits with what it staged, the end of a change with what it wrote.
"""

from collections.abc import Mapping
from datetime import datetime

from psycopg import Connection

from shared.domain.columns import cells_by_name, check_size, read_cells
from shared.domain.records import CustomTable, Record
from shared.domain.scp_rules import refuse_actions
from shared.domain.staged_changes import MAX_PENDING, NewChange, Origin, StagedChange
from shared.domain.strict_json import Json
from shared.effects.record_writes import create_records, delete_record, update_record
from shared.errors import Conflict, NotFound
from shared.queries.custom_tables import find_table
from shared.queries.records import find_record, lock_record
from shared.queries.staged_changes import count_pending_of_table, find_by_origin, insert_change


def stage_create(
    conn: Connection,
    table: CustomTable,
    cells: Mapping[str, Json],
    *,
    origin: Origin,
    now: datetime,
) -> int:
    """Stage a record to be made, cells by column id; return the id of the change.

    An origin that has staged one before finds it, here and below. Raises Conflict
    ``staged_changes_too_many``; nothing is locked, so that actions side by side may go a few over.
    """
    return _stage(
        conn, table, NewChange(operation="create", origin=origin, proposed=cells), now=now
    )


def stage_update(
    conn: Connection,
    table: CustomTable,
    record_id: int,
    cells: Mapping[str, Json],
    *,
    origin: Origin,
    now: datetime,
) -> int:
    """Stage cells to be written into a live record; return the id of the change.

    Raises NotFound, InvalidInput when the record would grow too large.
    """
    found = find_by_origin(conn, table.tenant_id, origin.key)
    if found is not None:
        return found
    record = _live_record(conn, table, record_id)
    check_size(cells_by_name({**record.data, **cells}, table.columns), "/data")
    change = NewChange(
        operation="update",
        origin=origin,
        record_id=record.id,
        base_version=record.version,
        base={column_id: record.data.get(column_id) for column_id in cells},
        proposed=cells,
    )
    return _stage(conn, table, change, now=now)


def stage_delete(
    conn: Connection, table: CustomTable, record_id: int, *, origin: Origin, now: datetime
) -> int:
    """Stage a live record to be deleted; return the id of the change. Raises NotFound."""
    found = find_by_origin(conn, table.tenant_id, origin.key)
    if found is not None:
        return found
    record = _live_record(conn, table, record_id)
    change = NewChange(
        operation="delete",
        origin=origin,
        record_id=record.id,
        base_version=record.version,
        base=record.data,
    )
    return _stage(conn, table, change, now=now)


def _live_record(conn: Connection, table: CustomTable, record_id: int) -> Record:
    record = find_record(conn, table, record_id)
    if record is None:
        raise NotFound(f"record {record_id} does not exist", code="record_not_found")
    return record


def _stage(conn: Connection, table: CustomTable, change: NewChange, *, now: datetime) -> int:
    if count_pending_of_table(conn, table.id, limit=MAX_PENDING) < MAX_PENDING:
        staged = insert_change(conn, table, change, now=now)
        if staged is not None:
            return staged
    found = find_by_origin(conn, table.tenant_id, change.origin.key)
    if found is None:
        message = f"{MAX_PENDING} staged changes of the table wait for a review, which is the limit"
        raise Conflict(message, code="staged_changes_too_many")
    return found


def apply(conn: Connection, change: StagedChange, *, now: datetime) -> Record:
    """Write what an approved change says, as any write of an action, and return the record.

    To be called in a transaction that holds the change. Raises NotFound when table or record is
    gone, Conflict when the record was changed since, a column dropped or the table got rules for
    chatrooms, InvalidInput when a cell does not fit any more, ChainTooDeep.
    """
    table = find_table(conn, change.table_id)
    if table is None or table.trashed_at is not None:
        raise NotFound("the table no longer exists", code="table_not_found")
    refuse_actions(table)
    if change.operation == "create":
        cells = _cells(table, change)
        [record] = create_records(
            conn, table, [cells], now=now, depth=change.depth, origin_key=change.origin_key
        )
        return record
    record = _lock_base(conn, table, change)
    if change.operation == "delete":
        return delete_record(conn, table, record.id, now=now, depth=change.depth)
    cells = _cells(table, change)
    return update_record(conn, table, record.id, cells, now=now, depth=change.depth)


def _lock_base(conn: Connection, table: CustomTable, change: StagedChange) -> Record:
    """Lock the record that a change is based on, if it is still the version it was then."""
    assert change.record_id is not None
    record = lock_record(conn, table, change.record_id)
    if record is None or record.deleted_at is not None:
        raise NotFound(f"record {change.record_id} no longer exists", code="record_not_found")
    if record.version != change.base_version:
        message = (
            f"conflict: record {record.id} has changed since (version {change.base_version}"
            f" then, {record.version} now)"
        )
        raise Conflict(message, code="change_conflict")
    return record


def _cells(table: CustomTable, change: StagedChange) -> dict[str, Json]:
    """Return the proposed cells, read anew by the table's columns as they are now."""
    assert change.proposed is not None
    names = {column.id: column.name for column in table.columns}
    if change.proposed.keys() - names.keys():
        raise Conflict("a column of the change was dropped since", code="column_dropped")
    proposed = {names[column_id]: cell for column_id, cell in change.proposed.items()}
    return read_cells(proposed, table.columns)
