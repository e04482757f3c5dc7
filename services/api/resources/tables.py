"""Tables: create, list, look at, rename and alter, trash and restore."""

from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR, READERS
from services.api.fields import StrictSchema
from services.api.pages import after_uuid, created_position, page, page_size
from services.api.resources.access import acting_tenant, channel_of_new_table, table_of
from services.api.routes import Answer, Call, Route
from services.api.schemas import ProblemErrorSchema, TenantPageQuery, TenantQuery
from shared.domain.columns import COLUMN_TYPES, MAX_COLUMNS, MAX_NAME, MAX_OPTIONS
from shared.domain.faults import MAX_POINTER, cut
from shared.domain.records import Approval, CustomTable
from shared.queries.custom_tables import list_tables
from shared.usecases.broken_references import BrokenReference
from shared.usecases.manage_tables import change_table, create_table, restore_table, trash_table

_TABLE = "/tables/<uuid:table_id>"

_APPROVALS: tuple[Approval, ...] = get_args(Approval)


class ColumnSchema(StrictSchema):
    """A column as the table has it; ``options`` only for select."""

    id = fields.Text(max=20, required=True)
    name = fields.Text(min=1, max=MAX_NAME, required=True)
    type = fields.Choice(*COLUMN_TYPES, required=True)
    options = fields.Items(fields.Text(min=1, max=MAX_NAME))


class TableSchema(StrictSchema):
    """A table."""

    id = fields.Uuid(required=True)
    tenant_id = fields.Uuid(required=True)
    channel_id = fields.Uuid(required=True, allow_none=True)
    name = fields.Text(min=1, max=200, required=True)
    columns = fields.Items(fields.Nested(ColumnSchema), required=True)
    approval = fields.Choice(*_APPROVALS, required=True)
    revision = fields.Integer(required=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)
    trashed_at = fields.Instant(required=True, allow_none=True)


class TablePageSchema(StrictSchema):
    """A page of tables, the oldest first."""

    items = fields.Items(fields.Nested(TableSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


# The rules of columns are the domain's: here they are only written down.
_COLUMNS = fields.Json(
    required=True,
    metadata={
        "type": "array",
        "maxItems": MAX_COLUMNS,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "type"],
            "properties": {
                "id": {"type": "string", "description": "keeps a column under a new name"},
                "name": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
                "type": {"type": "string", "enum": list(COLUMN_TYPES)},
                "options": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_OPTIONS,
                    "items": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
                },
            },
        },
    },
)


class NewTableSchema(StrictSchema):
    """A table to create; ``channel_id`` stays for good.

    ``approval`` required: what actions want to write waits for a moderator.
    """

    name = fields.Text(min=1, max=200, required=True)
    columns = _COLUMNS
    approval = fields.Choice(*_APPROVALS, load_default="none")
    channel_id = fields.Uuid(allow_none=True, load_default=None)


class TableChangeSchema(StrictSchema):
    """What changes; ``columns`` is the whole new list, a column left out is dropped."""

    name = fields.Text(min=1, max=200)
    columns = fields.Json(metadata=_COLUMNS.metadata)
    approval = fields.Choice(*_APPROVALS)


class AlterQuery(StrictSchema):
    """``dry_run``: the table is told as it would be, with what would break, and stays as it is."""

    dry_run = fields.QueryBoolean(load_default=False)


class BrokenReferenceSchema(StrictSchema):
    """A definition that the alteration breaks; ``table_id`` is that of a trigger alone.

    The pointers of ``errors`` lead into the definition.
    """

    kind = fields.Choice("trigger", "trigger_rule", "workflow", required=True)
    table_id = fields.Uuid(required=True, allow_none=True)
    id = fields.Text(max=20, required=True)
    name = fields.Text(max=200, required=True)
    errors = fields.Items(fields.Nested(ProblemErrorSchema), required=True)


class AlteredTableSchema(TableSchema):
    """The table as altered, and what that breaks: up to 100 definitions."""

    breaks = fields.Items(fields.Nested(BrokenReferenceSchema), required=True)


class TableListQuery(TenantPageQuery):
    """Which tables."""

    trashed = fields.QueryBoolean(load_default=False)


def _create(call: Call) -> Answer:
    table = create_table(
        call.conn,
        tenant_id=acting_tenant(call),
        channel_id=channel_of_new_table(call),
        name=call.body["name"],
        raw_columns=call.body["columns"],
        approval=call.body["approval"],
        now=call.now,
    )
    return _answer(table, status=201)


def _list(call: Call) -> Answer:
    found = list_tables(
        call.conn,
        tenant_id=call.caller.tenant_id,
        channel_id=call.caller.channel_id,
        trashed=call.query["trashed"],
        after=after_uuid(call),
        limit=page_size(call),
    )
    return page(
        call,
        found,
        position=lambda table: created_position(table.created_at, table.id),
        document=_document,
    )


def _get(call: Call) -> Answer:
    return _answer(table_of(call))


def _alter(call: Call) -> Answer:
    altered = change_table(
        call.conn,
        table_of(call).id,
        name=call.body.get("name"),
        raw_columns=call.body.get("columns"),
        approval=call.body.get("approval"),
        now=call.now,
        expected_revision=call.revision,
        dry_run=call.query["dry_run"],
    )
    breaks = [_broken(one) for one in altered.breaks]
    body = {**_document(altered.table), "breaks": breaks}
    return Answer(body=body, revision=altered.table.revision)


def _broken(one: BrokenReference) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "table_id": one.table_id,
        "id": one.id,
        "name": one.name,
        "errors": [
            {
                "pointer": cut(fault.pointer, MAX_POINTER),
                "code": fault.code,
                "detail": cut(fault.message, 2000),
            }
            for fault in one.faults
        ],
    }


def _trash(call: Call) -> Answer:
    trash_table(call.conn, table_of(call).id, now=call.now)
    return Answer(status=204)


def _restore(call: Call) -> Answer:
    return _answer(restore_table(call.conn, table_of(call, trashed=True).id, now=call.now))


def _answer(table: CustomTable, *, status: int = 200) -> Answer:
    return Answer(body=_document(table), status=status, revision=table.revision)


def _document(table: CustomTable) -> dict[str, Any]:
    return {
        "id": table.id,
        "tenant_id": table.tenant_id,
        "channel_id": table.channel_id,
        "name": table.name,
        "columns": [column.to_json() for column in table.columns],
        "approval": table.approval,
        "revision": table.revision,
        "created_at": table.created_at,
        "updated_at": table.updated_at,
        "trashed_at": table.trashed_at,
    }


TABLE_ROUTES = (
    Route(
        method="POST",
        path="/tables",
        operation_id="tables.create",
        summary="Create a table",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewTableSchema,
        answers={201: TableSchema},
        handler=_create,
        creates=True,
    ),
    Route(
        method="GET",
        path="/tables",
        operation_id="tables.list",
        summary="List tables, the oldest first",
        roles=READERS,
        query=TableListQuery,
        answers={200: TablePageSchema},
        handler=_list,
        across_tenants=True,
    ),
    Route(
        method="GET",
        path=_TABLE,
        operation_id="tables.get",
        summary="Look at a table",
        roles=READERS,
        answers={200: TableSchema},
        handler=_get,
    ),
    Route(
        method="PATCH",
        path=_TABLE,
        operation_id="tables.alter",
        summary="Rename a table, alter its columns (what names them follows) or its approval",
        roles=MODERATOR,
        query=AlterQuery,
        body=TableChangeSchema,
        answers={200: AlteredTableSchema},
        handler=_alter,
        versioned=True,
        conflicts=True,
    ),
    Route(
        method="DELETE",
        path=_TABLE,
        operation_id="tables.trash",
        summary="Move a table to the trash: it is silent, and absent everywhere else",
        roles=MODERATOR,
        answers={204: None},
        handler=_trash,
    ),
    Route(
        method="POST",
        path=_TABLE + "/restore",
        operation_id="tables.restore",
        summary="Take a table out of the trash",
        roles=MODERATOR,
        answers={200: TableSchema},
        handler=_restore,
    ),
)
