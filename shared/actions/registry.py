"""The action types, and the check of a trigger's actions at save."""

from collections.abc import Mapping
from typing import Any

from shared.actions.action import Action, CheckContext, Lookup
from shared.actions.api_call import ApiCall
from shared.actions.create_record import CreateRecord
from shared.actions.delete_record import DeleteRecord
from shared.actions.invoke_command import InvokeCommand
from shared.actions.notify import Notify
from shared.actions.recordless import recordless_faults
from shared.actions.schemas import schema_faults
from shared.actions.update_record import UpdateRecord
from shared.actions.webhook import Webhook
from shared.domain.columns import Column
from shared.domain.faults import MAX_TOLD, child, cut, in_document_order, under
from shared.domain.templates import template_faults
from shared.domain.triggers import On, ScheduleKind
from shared.errors import Fault

ACTIONS: Mapping[str, Action] = {
    "notify": Notify(),
    "webhook": Webhook(),
    "api_call": ApiCall(),
    "create_record": CreateRecord(),
    "update_record": UpdateRecord(),
    "delete_record": DeleteRecord(),
    "invoke_command": InvokeCommand(),
}


def check_actions(
    raw_actions: object,
    *,
    on: On,
    schedule_kind: ScheduleKind | None,
    columns: tuple[Column, ...],
    lookup: Lookup,
) -> list[Fault]:
    """Return the faults of a trigger's ``actions``, in document order; pointers are the trigger's.

    Actions behind the one that makes them more than are told are not looked at.
    ``schedule_kind`` is None for event triggers, and where the schedule itself is at fault. What
    ``read_trigger`` says (no list, no objects, no type) is not said again.
    """
    context = CheckContext(on=on, schedule_kind=schedule_kind, columns=columns, lookup=lookup)
    actions = raw_actions if isinstance(raw_actions, list) else []
    faults: list[Fault] = []
    for index, action in enumerate(actions):
        if isinstance(action, dict) and isinstance(action.get("type"), str):
            faults += under(child("/actions", index), _faults(action, context))
        if len(faults) >= MAX_TOLD:
            break
    return in_document_order({"actions": actions}, faults)


def _faults(raw: Mapping[str, Any], context: CheckContext) -> list[Fault]:
    action = ACTIONS.get(raw["type"])
    if action is None:
        message = f"invalid action type '{cut(raw['type'])}'. valid types: {', '.join(ACTIONS)}"
        return [Fault(code="action_type_unknown", pointer="/type", message=message)]
    shape = schema_faults(action.type, action.schema, raw)
    refused = recordless_faults(raw, context)
    if refused:
        # What the trigger cannot have is not held against columns, tables and commands as well.
        return [*shape, *refused]
    unknown = (
        fault
        for key in action.templated
        for fault in template_faults(raw.get(key), context.columns, child("", key))
    )
    return [*shape, *unknown, *([] if shape else action.check(raw, context))]
