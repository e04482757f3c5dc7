"""The backlogs of a table's date triggers at a save: what becomes of values overdue already.

A save speaks of the triggers that it makes, revives, or gives another column or offset; the
backlogs of others go on. What is to be consumed is so before its trigger may change again: it was
promised.
"""

from collections.abc import Sequence
from datetime import datetime

from psycopg import Connection

from shared.domain.on_existing import Backlog, OnExisting
from shared.domain.records import CustomTable
from shared.domain.triggers import Trigger, TriggerState
from shared.errors import Conflict
from shared.queries.backlogs import begin_backlog, end_backlog
from shared.queries.trigger_states import list_states
from shared.usecases.align_states import is_concerned, is_edited


def check_backlogs(
    table: CustomTable, triggers: Sequence[Trigger], states: Sequence[TriggerState]
) -> None:
    """Raise Conflict ``values_being_consumed`` if the save would cut a consumption short.

    ``table`` is as it was. A column that is no date any more has nothing left to consume.
    """
    by_id = {trigger.id: trigger for trigger in triggers if trigger.schedule is not None}
    for state in states:
        if state.backlog is None or state.backlog.mode != "consume" or not _is_read(table, state):
            continue
        trigger = by_id.get(state.trigger_id)
        if trigger is None or is_edited(trigger, state):
            message = (
                f"the overdue values of trigger '{state.trigger_id}' are still being entered in the"
                " ledger, as an earlier save asked: try again when the scheduler has been through"
                " the table"
            )
            raise Conflict(message, code="values_being_consumed")


def _is_read(table: CustomTable, state: TriggerState) -> bool:
    types = {column.name: column.type for column in table.columns}
    return types.get(str(state.schedule.get("column"))) in ("date", "datetime")


def align_backlogs(
    conn: Connection,
    table: CustomTable,
    triggers: Sequence[Trigger],
    states: Sequence[TriggerState],
    on_existing: OnExisting,
    *,
    now: datetime,
) -> None:
    """Begin and end backlogs as the save chose, when the states are in line with it.

    ``triggers`` are identified, ``states`` are as they were before.
    """
    known = {state.trigger_id: state for state in states}
    concerned = {
        trigger.id for trigger in triggers if is_concerned(trigger, known.get(trigger.id or ""))
    }
    standing = {trigger.id for trigger in triggers if trigger.date_column is not None}
    for state in states:
        is_over = state.trigger_id in concerned or state.trigger_id not in standing
        if state.backlog is not None and is_over:
            end_backlog(conn, state.ref)
    if concerned and on_existing.mode != "fire":
        backlog = Backlog(mode=on_existing.mode, before=now, per_minute=on_existing.per_minute)
        for state in list_states(conn, table.id):
            if state.trigger_id in concerned:
                begin_backlog(conn, state.ref, backlog, tenant_id=table.tenant_id)
