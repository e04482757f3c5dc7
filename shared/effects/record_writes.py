"""Writes of records: with the event runs they cause and their entries in the due index.

All of a write is one transaction, a savepoint within the caller's if there is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from shared.domain.columns import cells_by_name, check_size
from shared.domain.conditions import matches
from shared.domain.definitions import definition_body, definition_hash
from shared.domain.records import CustomTable, Record
from shared.domain.triggers import Trigger, read_triggers
from shared.effects.backlog_writes import Change, keep_backlogs
from shared.errors import AppError, Conflict, NotFound, StaleVersion
from shared.evaluator.date_trigger import look_at
from shared.observability import tracing
from shared.observability.trace_ids import Row
from shared.queries.definitions import store_definition
from shared.queries.due_values import DuePointer, DueValue, put_due_values, remove_due_values
from shared.queries.new_runs import EventKind, insert_event_runs
from shared.queries.notifications import notify_due, notify_work
from shared.queries.records import find_by_origin, insert_records, lock_record, write_record
from shared.queries.trigger_states import list_states

MAX_DEPTH = 8
"""How many triggers may have set off each other before one of them is refused."""

# The scanner looks every two seconds by itself: only what comes before is worth waking it.
_SOON = timedelta(seconds=5)


class ChainTooDeep(AppError):
    """A write would set off one more trigger of a chain that is as long as it may get."""

    code = "chain_too_deep"


def create_records(
    conn: Connection,
    table: CustomTable,
    rows: Sequence[dict[str, Any]],
    *,
    now: datetime,
    depth: int = 0,
    origin_key: str | None = None,
) -> list[Record]:
    """Insert records of a live table, cells by column id, and return them in this order.

    ``depth`` is that of the runs the write causes: 0 for a person's, one more than its own for a
    run's. ``origin_key`` names what makes the one row: made before, that record is returned and
    nothing else happens. Raises ChainTooDeep.
    """
    with conn.transaction():
        records = insert_records(conn, table, rows, now=now, origin_key=origin_key)
        if origin_key is not None and not records:
            found = find_by_origin(conn, table, origin_key)
            assert found is not None
            return [found]
        follow_write(
            conn, table, RecordWrite(records=records, event="record_created", depth=depth, now=now)
        )
    return records


def update_record(
    conn: Connection,
    table: CustomTable,
    record_id: int,
    cells: Mapping[str, Any],
    *,
    now: datetime,
    depth: int = 0,
    expected_version: int | None = None,
) -> Record:
    """Replace these cells of a live record and return it; ``depth`` as in ``create_records``.

    Raises NotFound, StaleVersion when the version is not the expected one, InvalidInput when the
    record grows too large, ChainTooDeep.
    """
    with conn.transaction():
        record = _lock_live(conn, table, record_id)
        if expected_version not in (None, record.version):
            raise StaleVersion(f"record {record_id} was changed meanwhile")
        data = {**record.data, **cells}
        check_size(cells_by_name(data, table.columns), "/data")
        written = write_record(conn, record, data=data, deleted_at=None, now=now)
        write = RecordWrite(
            records=[written], event="record_updated", before=record.data, depth=depth, now=now
        )
        follow_write(conn, table, write)
    return written


def delete_record(
    conn: Connection, table: CustomTable, record_id: int, *, now: datetime, depth: int = 0
) -> Record:
    """Delete a live record softly and return it; ``depth`` as in ``create_records``.

    Raises NotFound, ChainTooDeep.
    """
    with conn.transaction():
        record = _lock_live(conn, table, record_id)
        written = write_record(conn, record, data=record.data, deleted_at=now, now=now)
        follow_write(
            conn,
            table,
            RecordWrite(records=[written], event="record_deleted", depth=depth, now=now),
        )
    return written


def restore_record(
    conn: Connection, table: CustomTable, record_id: int, *, now: datetime
) -> Record:
    """Bring a deleted record back and return it; no event, but its dates count again.

    Raises NotFound, Conflict ``record_not_deleted``.
    """
    with conn.transaction():
        record = _lock(conn, table, record_id)
        if record.deleted_at is None:
            raise Conflict(f"record {record_id} is not deleted", code="record_not_deleted")
        written = write_record(conn, record, data=record.data, deleted_at=None, now=now)
        follow_write(conn, table, RecordWrite(records=[written], event=None, depth=0, now=now))
    return written


def _lock(conn: Connection, table: CustomTable, record_id: int) -> Record:
    record = lock_record(conn, table, record_id)
    if record is None:
        raise NotFound(f"record {record_id} does not exist", code="record_not_found")
    return record


def _lock_live(conn: Connection, table: CustomTable, record_id: int) -> Record:
    record = _lock(conn, table, record_id)
    if record.deleted_at is not None:
        raise NotFound(f"record {record_id} does not exist", code="record_not_found")
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWrite:
    """What was written; ``before`` has the cells before an update, ``event`` is None for none."""

    records: Sequence[Record]
    event: EventKind | None
    before: Mapping[str, Any] | None = None
    depth: int
    now: datetime

    def change_of(self, record: Record) -> Change:
        """Return what the write did to one of its records."""
        before = {"record_updated": self.before, "record_deleted": record.data}
        return Change(
            record_id=record.id,
            version=record.version,
            before=before.get(self.event or ""),
            after=None if record.deleted_at is not None else record.data,
        )


def follow_write(conn: Connection, table: CustomTable, write: RecordWrite) -> None:
    """Do what a write brings with it: its event runs, its entries in the due index.

    Raises ChainTooDeep.
    """
    read = read_triggers(table.triggers or [], table.columns, stored=True)
    triggers = [one.trigger for one in read if one.trigger is not None]
    _fire(conn, table, [one for one in triggers if one.on == write.event and one.enabled], write)
    _index(conn, table, [one for one in triggers if one.date_column is not None], write)


def _fire(
    conn: Connection, table: CustomTable, triggers: Sequence[Trigger], write: RecordWrite
) -> None:
    """Insert a run for each trigger and each record that it matches."""
    fired = False
    for trigger in triggers:
        ids = [
            record.id
            for record in write.records
            if matches(trigger.when, record.data, before=write.before)
        ]
        if ids:
            _insert_runs(conn, table, trigger, write, ids)
            fired = True
    if fired:
        notify_work(conn)


def _insert_runs(
    conn: Connection, table: CustomTable, trigger: Trigger, write: RecordWrite, ids: Sequence[int]
) -> None:
    if write.depth > MAX_DEPTH:
        message = (
            f"a chain of triggers is cut at depth {MAX_DEPTH}: this write would set off one more"
        )
        raise ChainTooDeep(message)
    assert trigger.id is not None
    assert write.event is not None
    body = definition_body(trigger.raw, table.columns)
    hash = definition_hash(body)
    store_definition(conn, tenant_id=table.tenant_id, hash=hash, body=body)
    run_ids = insert_event_runs(
        conn,
        ids,
        trigger_id=trigger.id,
        kind=write.event,
        definition_hash=hash,
        depth=write.depth,
        now=write.now,
    )
    if tracing.is_on():
        for id in run_ids:
            tracing.current().made("fire", Row(table.tenant_id, "trigger_run", id))


def _index(
    conn: Connection, table: CustomTable, triggers: Sequence[Trigger], write: RecordWrite
) -> None:
    """Put the records into the due index of each date trigger, or take them out of it.

    Of disabled triggers too: the due pass drops what it looked at.
    """
    if not triggers:
        return
    by_id = {trigger.id: trigger for trigger in triggers}
    entries: list[DueValue] = []
    gone: list[DuePointer] = []
    states = list_states(conn, table.id)
    changes = [write.change_of(record) for record in write.records]
    keep_backlogs(conn, table, triggers, states, changes, now=write.now)
    for state in states:
        trigger = by_id.get(state.trigger_id)
        if trigger is None or trigger.kind != state.kind:
            continue
        for record in write.records:
            at = _look_at(trigger, record)
            if at is None:
                gone.append(DuePointer(trigger_ref=state.ref, record_id=record.id))
            else:
                entries.append(_entry(state.ref, record, at))
    if write.event != "record_created":
        remove_due_values(conn, gone)
    put_due_values(conn, tenant_id=table.tenant_id, entries=entries)
    if any(entry.fire_at <= write.now + _SOON for entry in entries):
        notify_due(conn)


def _look_at(trigger: Trigger, record: Record) -> datetime | None:
    if trigger.date_column is None or record.deleted_at is not None:
        return None
    return look_at(trigger, record.data.get(trigger.date_column.id))


def _entry(trigger_ref: int, record: Record, at: datetime) -> DueValue:
    return DueValue(
        trigger_ref=trigger_ref, record_id=record.id, version=record.version, fire_at=at
    )
