"""The approval gate of the actions that write records: into some tables they may only propose."""

from collections.abc import Mapping

from psycopg import Connection

from shared.actions.action import ActionContext
from shared.domain.records import CustomTable
from shared.domain.staged_changes import Origin
from shared.domain.strict_json import Json
from shared.effects import staged_changes


def asks_for_approval(table: CustomTable) -> bool:
    """Whether an action may write into the table only what somebody has approved."""
    return table.approval == "required"


def stage_create(
    conn: Connection, table: CustomTable, cells: Mapping[str, Json], context: ActionContext
) -> dict[str, Json]:
    """Stage a record to be made and return what the receipt tells; so do the others.

    Raises what the write would, as far as it is known by now.
    """
    origin = _origin(context)
    return _told(staged_changes.stage_create(conn, table, cells, origin=origin, now=context.now))


def stage_update(
    conn: Connection,
    table: CustomTable,
    record_id: int,
    cells: Mapping[str, Json],
    context: ActionContext,
) -> dict[str, Json]:
    """Stage cells to be written into a record."""
    return _told(
        staged_changes.stage_update(
            conn, table, record_id, cells, origin=_origin(context), now=context.now
        )
    )


def stage_delete(
    conn: Connection, table: CustomTable, record_id: int, context: ActionContext
) -> dict[str, Json]:
    """Stage a record to be deleted."""
    origin = _origin(context)
    return _told(
        staged_changes.stage_delete(conn, table, record_id, origin=origin, now=context.now)
    )


def _origin(context: ActionContext) -> Origin:
    return Origin(
        key=context.idempotency_key,
        work_kind=context.work_kind,
        work_id=context.work_id,
        depth=context.depth + 1,
    )


def _told(change_id: int) -> dict[str, Json]:
    told: dict[str, Json] = {"staged": True, "staged_change_id": change_id}
    return told
