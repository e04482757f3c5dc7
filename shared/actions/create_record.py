"""create_record: insert a record into a table of the same tenant."""

from typing import ClassVar
from uuid import UUID

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.failures import ActionFailed
from shared.actions.record_cells import (
    columns_as_frozen,
    columns_as_known,
    data_faults,
    rendered_cells,
)
from shared.actions.ruled_tables import refuse_ruled, ruled_faults
from shared.actions.schemas import ActionSchema, identifier, kind, mapping
from shared.actions.staging import asks_for_approval, stage_create
from shared.domain.strict_json import Json
from shared.effects.record_writes import create_records
from shared.errors import AppError, Fault
from shared.queries.custom_tables import find_table


class CreateRecordSchema(ActionSchema):
    """``data`` has cells by column name."""

    type = kind("create_record")
    table_id = identifier()
    data = mapping(required=True)


class CreateRecord:
    """Inserts one record."""

    type: ClassVar[str] = "create_record"
    schema: ClassVar[SchemaClass] = CreateRecordSchema
    templated: ClassVar[tuple[str, ...]] = ("data",)

    def effect(self, services: Services) -> Effect:
        """Return internal."""
        return "internal"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse tables that the tenant does not have, and data that does not fit."""
        table = context.lookup.find_table(UUID(config["table_id"]))
        if table is None:
            message = "create_record table_id names no table of this tenant"
            return [Fault(code="action_table_unknown", pointer="/table_id", message=message)]
        return [
            *ruled_faults("create_record table_id", table, "/table_id"),
            *data_faults(config["data"], table.columns, context),
        ]

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Insert the record, once for this action of its run, or stage it."""
        with context.connect() as conn:
            table = find_table(conn, UUID(config["table_id"]))
            if table is None or table.trashed_at or table.tenant_id != context.tenant_id:
                raise ActionFailed("the table no longer exists")
            refuse_ruled(table)
            own = table.id == context.table_id
            columns = (
                columns_as_frozen(table, context)
                if own
                else columns_as_known(conn, table, config["data"])
            )
            cells = rendered_cells(config["data"], columns, context)
            try:
                if asks_for_approval(table):
                    return stage_create(conn, table, cells, context)
                [record] = create_records(
                    conn,
                    table,
                    [cells],
                    now=context.now,
                    depth=context.depth + 1,
                    origin_key=context.idempotency_key,
                )
            except AppError as error:
                raise ActionFailed(error.message) from error
        return {"record_id": record.id}
