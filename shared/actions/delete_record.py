"""delete_record: delete a record of the trigger's own table; it can be restored."""

from typing import ClassVar

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.failures import ActionFailed
from shared.actions.row_targets import deleted_row_faults, live_table, target, target_id
from shared.actions.schemas import ActionSchema, kind
from shared.actions.staging import asks_for_approval, stage_delete
from shared.domain.strict_json import Json
from shared.effects.record_writes import delete_record
from shared.errors import AppError, Fault


class DeleteRecordSchema(ActionSchema):
    """The target, and nothing else."""

    type = kind("delete_record")
    target = target()


class DeleteRecord:
    """Deletes one record softly."""

    type: ClassVar[str] = "delete_record"
    schema: ClassVar[SchemaClass] = DeleteRecordSchema
    templated: ClassVar[tuple[str, ...]] = ()

    def effect(self, services: Services) -> Effect:
        """Return internal."""
        return "internal"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse a row that is gone."""
        return deleted_row_faults(config, context)

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Delete the record, or stage that."""
        record_id = target_id(config, context)
        with context.connect() as conn:
            table = live_table(conn, context)
            try:
                if asks_for_approval(table):
                    return stage_delete(conn, table, record_id, context)
                delete_record(conn, table, record_id, now=context.now, depth=context.depth + 1)
            except AppError as error:
                raise ActionFailed(error.message) from error
        return {"record_id": record_id}
