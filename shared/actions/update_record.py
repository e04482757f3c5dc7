"""update_record: write cells of a record of the trigger's own table."""

from typing import ClassVar

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.failures import ActionFailed
from shared.actions.record_cells import columns_as_frozen, data_faults, rendered_cells
from shared.actions.row_targets import deleted_row_faults, live_table, target, target_id
from shared.actions.schemas import ActionSchema, kind, mapping
from shared.actions.staging import asks_for_approval, stage_update
from shared.domain.strict_json import Json
from shared.effects.record_writes import update_record
from shared.errors import AppError, Fault


class UpdateRecordSchema(ActionSchema):
    """``data`` has the cells to write by column name; the others stay."""

    type = kind("update_record")
    target = target()
    data = mapping(required=True, empty="must name a column")


class UpdateRecord:
    """Writes one record as it is now, not as it was when the run was made."""

    type: ClassVar[str] = "update_record"
    schema: ClassVar[SchemaClass] = UpdateRecordSchema
    templated: ClassVar[tuple[str, ...]] = ("data",)

    def effect(self, services: Services) -> Effect:
        """Return internal."""
        return "internal"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse a row that is gone, and data that does not fit."""
        return [
            *deleted_row_faults(config, context),
            *data_faults(config["data"], context.columns, context),
        ]

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Write the cells, or stage them."""
        record_id = target_id(config, context)
        with context.connect() as conn:
            table = live_table(conn, context)
            cells = rendered_cells(config["data"], columns_as_frozen(table, context), context)
            try:
                if asks_for_approval(table):
                    return stage_update(conn, table, record_id, cells, context)
                record = update_record(
                    conn, table, record_id, cells, now=context.now, depth=context.depth + 1
                )
            except AppError as error:
                raise ActionFailed(error.message) from error
        return {"record_id": record.id, "version": record.version}
