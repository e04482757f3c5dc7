"""Records of a table: create, list by predicates, look at, change, delete, restore."""

from datetime import datetime
from typing import Any

from services.api import fields
from services.api.auth import RECORD_READERS, RECORD_WRITERS
from services.api.fields import StrictSchema
from services.api.pages import created_position
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from services.api.schemas import PageQuery
from shared.domain.columns import cells_by_name, read_cells
from shared.domain.conditions import Predicate, read_when
from shared.domain.records import CustomTable, Record
from shared.effects.record_writes import (
    create_records,
    delete_record,
    restore_record,
    update_record,
)
from shared.errors import InvalidInput, NotFound
from shared.queries.records import find_record, list_records

_RECORDS = "/tables/<uuid:table_id>/records"
_RECORD = _RECORDS + "/<id:record_id>"

_CELLS = {"description": "Cells by column name; null empties a cell."}


class RecordSchema(StrictSchema):
    """A record; ``version`` grows with every write."""

    id = fields.Integer(required=True)
    table_id = fields.Uuid(required=True)
    data = fields.Members(required=True, metadata={"description": "cells by column name"})
    version = fields.Integer(required=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)
    deleted_at = fields.Instant(required=True, allow_none=True)


class RecordPageSchema(StrictSchema):
    """A page of records, the oldest first; it may be short, or empty, although others follow."""

    items = fields.Items(fields.Nested(RecordSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class CellsSchema(StrictSchema):
    """Cells of a record."""

    data = fields.Members(required=True, metadata=_CELLS)


class RecordListQuery(PageQuery):
    """Which records."""

    where = fields.QueryJson(
        metadata={
            "type": "string",
            "description": 'predicates, all to match: [{"column", "op", "value"?}]',
            "examples": ['[{"column": "status", "op": "eq", "value": "open"}]'],
        }
    )


def _create(call: Call) -> Answer:
    table = table_of(call)
    cells = read_cells(call.body["data"], table.columns, "/data")
    record = create_records(call.conn, table, [cells], now=call.now)[0]
    return _answer(table, record, status=201)


def _list(call: Call) -> Answer:
    table = table_of(call)
    page = list_records(
        call.conn,
        table,
        after=_after(call),
        limit=call.query["limit"],
        predicates=_predicates(call, table),
    )
    cursor = None if page.after is None else call.cursors.seal(created_position(*page.after))
    items = [_document(table, record) for record in page.records]
    return Answer(body={"items": items, "next_cursor": cursor})


def _after(call: Call) -> tuple[datetime, int] | None:
    if call.position is None:
        return None
    created_at, record_id = call.position
    return datetime.fromisoformat(str(created_at)), int(record_id)


def _predicates(call: Call, table: CustomTable) -> tuple[Predicate, ...]:
    predicates, faults = read_when(
        call.query.get("where", []), table.columns, on=None, pointer="/where"
    )
    if faults:
        raise InvalidInput.of(faults)
    return predicates


def _get(call: Call) -> Answer:
    table = table_of(call)
    record_id = call.ids["record_id"]
    record = find_record(call.conn, table, record_id)
    if record is None:
        raise NotFound(f"record {record_id} does not exist", code="record_not_found")
    return _answer(table, record)


def _change(call: Call) -> Answer:
    table = table_of(call)
    cells = read_cells(call.body["data"], table.columns, "/data")
    record = update_record(
        call.conn,
        table,
        call.ids["record_id"],
        cells,
        now=call.now,
        expected_version=call.revision,
    )
    return _answer(table, record)


def _delete(call: Call) -> Answer:
    delete_record(call.conn, table_of(call), call.ids["record_id"], now=call.now)
    return Answer(status=204)


def _restore(call: Call) -> Answer:
    table = table_of(call)
    return _answer(table, restore_record(call.conn, table, call.ids["record_id"], now=call.now))


def _answer(table: CustomTable, record: Record, *, status: int = 200) -> Answer:
    return Answer(body=_document(table, record), status=status, revision=record.version)


def _document(table: CustomTable, record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "table_id": record.table_id,
        "data": cells_by_name(record.data, table.columns),
        "version": record.version,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "deleted_at": record.deleted_at,
    }


RECORD_ROUTES = (
    Route(
        method="POST",
        path=_RECORDS,
        operation_id="records.create",
        summary="Create a record",
        acts="create",
        roles=RECORD_WRITERS,
        body=CellsSchema,
        answers={201: RecordSchema},
        handler=_create,
        creates=True,
    ),
    Route(
        method="GET",
        path=_RECORDS,
        operation_id="records.list",
        summary="List live records, the oldest first",
        acts="read",
        roles=RECORD_READERS,
        query=RecordListQuery,
        answers={200: RecordPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path=_RECORD,
        operation_id="records.get",
        summary="Look at a record",
        acts="read",
        roles=RECORD_READERS,
        answers={200: RecordSchema},
        handler=_get,
    ),
    Route(
        method="PATCH",
        path=_RECORD,
        operation_id="records.change",
        summary="Change cells of a record; the others stay",
        acts="update",
        roles=RECORD_WRITERS,
        body=CellsSchema,
        answers={200: RecordSchema},
        handler=_change,
        versioned=True,
        conflicts=True,
    ),
    Route(
        method="DELETE",
        path=_RECORD,
        operation_id="records.delete",
        summary="Delete a record; it can be restored",
        acts="delete",
        roles=RECORD_WRITERS,
        answers={204: None},
        handler=_delete,
        conflicts=True,
    ),
    Route(
        method="POST",
        path=_RECORD + "/restore",
        operation_id="records.restore",
        summary="Restore a deleted record",
        acts="delete",
        roles=RECORD_WRITERS,
        answers={200: RecordSchema},
        handler=_restore,
        conflicts=True,
    ),
)
