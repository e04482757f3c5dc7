"""Actions on one record of the trigger's own table: which record, and where they may stand."""

from marshmallow import ValidationError, fields
from psycopg import Connection

from shared.actions.action import ActionContext, CheckContext, Config
from shared.actions.failures import ActionFailed
from shared.actions.ruled_tables import refuse_ruled
from shared.actions.schemas import either
from shared.domain.records import CustomTable
from shared.errors import Fault
from shared.queries.custom_tables import find_table

ROW = "$row"
MAX_RECORD_ID = 2**63 - 1


def target() -> fields.Raw:
    """Return the field for the record that the run is about (``$row``), or the id of a record."""
    return either(
        {"type": "string", "enum": [ROW]},
        {"type": "integer", "minimum": 1, "maximum": MAX_RECORD_ID},
        validate=_is_target,
    )


def _is_target(value: object) -> None:
    if value == ROW:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RECORD_ID:
        raise ValidationError("must be '$row' or the id of a record")


def is_on_row(config: Config) -> bool:
    """Return whether the action means the run's own record; so does one without a target."""
    return bool(config.get("target", ROW) == ROW)


def deleted_row_faults(config: Config, context: CheckContext) -> list[Fault]:
    """Refuse the row in a ``record_deleted`` trigger: it is gone when the action runs."""
    if context.on != "record_deleted" or not is_on_row(config):
        return []
    message = (
        f"{config['type']} on '$row' cannot stand in a record_deleted trigger: the row is gone"
    )
    return [Fault(code="row_target_deleted", pointer="/target", message=message)]


def target_id(config: Config, context: ActionContext) -> int:
    """Return the id of the record that the action means."""
    record_id = context.record_id if is_on_row(config) else config["target"]
    if record_id is None:
        raise ActionFailed("there is no row")
    return int(record_id)


def live_table(conn: Connection, context: ActionContext) -> CustomTable:
    """Return the subject's own table.

    Raises ActionFailed when it was trashed meanwhile, or got channel SCP rules.
    """
    table = None if context.table_id is None else find_table(conn, context.table_id)
    if table is None or table.trashed_at is not None:
        raise ActionFailed("the table no longer exists")
    refuse_ruled(table)
    return table
