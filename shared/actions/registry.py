"""The action types, and the check of actions at save."""

from collections.abc import Callable, Iterable, Mapping

from shared.actions.action import Action, CheckContext, Config, Lookup, Services
from shared.actions.api_call import ApiCall
from shared.actions.create_record import CreateRecord
from shared.actions.delete_record import DeleteRecord
from shared.actions.invoke_command import InvokeCommand
from shared.actions.lookups import Remembered
from shared.actions.materialize_slots import MaterializeSlots
from shared.actions.notify import Notify
from shared.actions.recordless import recordless_faults, recordless_link_faults
from shared.actions.schemas import schema_faults
from shared.actions.start_workflow import StartWorkflow
from shared.actions.update_record import UpdateRecord
from shared.actions.webhook import Webhook
from shared.domain.action_lists import MAX_ACTIONS
from shared.domain.columns import Column
from shared.domain.delays import Place, read_delay, without_delay
from shared.domain.faults import MAX_TOLD, child, cut, in_document_order, under
from shared.domain.strict_json import Json
from shared.domain.templates import link_faults, template_faults
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
    "materialize_slots": MaterializeSlots(),
    "start_workflow": StartWorkflow(),
}


def external_types(services: Services) -> list[str]:
    """Return the types whose actions are sent to somebody else."""
    return [type for type, action in ACTIONS.items() if action.effect(services) == "external"]


def check_actions(
    raw_actions: object,
    *,
    lookup: Lookup,
    place: Place = "trigger",
    on: On | None = None,
    schedule_kind: ScheduleKind | None = None,
    columns: tuple[Column, ...] = (),
) -> list[Fault]:
    """Return the faults of a list ``actions``, in document order; pointers are its owner's.

    Actions behind the one that makes them more than are told are not looked at. ``on``,
    ``schedule_kind`` and ``columns`` are a trigger's alone; ``schedule_kind`` is None for event
    triggers, and where the schedule itself is at fault. What ``action_list_faults`` says (no list,
    no objects, no type) is not said again.
    """
    context = CheckContext(
        place=place,
        on=on,
        schedule_kind=schedule_kind,
        columns=columns,
        lookup=Remembered(lookup),
    )
    actions = raw_actions if isinstance(raw_actions, list) else []
    faults = _list_faults(actions, "/actions", lambda action: check_action(action, context))
    return in_document_order({"actions": actions}, faults)


def check_action(action: object, context: CheckContext) -> list[Fault]:
    """Return the faults of one action in its place, in no order; pointers are the action's.

    What ``action_faults`` says (no object, no type) is not said again.
    """
    return _action_faults(action, context, on_expiry=False)


def _list_faults(
    actions: Iterable[object], pointer: str, check: Callable[[object], list[Fault]]
) -> list[Fault]:
    faults: list[Fault] = []
    for index, action in enumerate(actions):
        faults += under(child(pointer, index), check(action))
        if len(faults) >= MAX_TOLD:
            break
    return faults


def _action_faults(raw: object, context: CheckContext, *, on_expiry: bool) -> list[Fault]:
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return []
    action = ACTIONS.get(raw["type"])
    if action is None:
        message = f"invalid action type '{cut(raw['type'])}'. valid types: {', '.join(ACTIONS)}"
        return [Fault(code="action_type_unknown", pointer="/type", message=message)]
    faults = _own_faults(action, without_delay(raw), context)
    if "delay" in raw:
        faults += under("/delay", _delay_faults(raw["delay"], context, on_expiry=on_expiry))
    return faults


def _own_faults(action: Action, config: Config, context: CheckContext) -> list[Fault]:
    shape = schema_faults(action.type, action.schema, config, on_events=context.on_events)
    refused = recordless_faults(config, context)
    if refused:
        # What the place cannot have is not held against columns, tables and commands as well.
        return [*shape, *refused]
    unknown = (
        fault
        for key in action.templated
        for fault in _unknown_tokens(config.get(key), child("", key), context)
    )
    return [*shape, *unknown, *([] if shape else action.check(config, context))]


def _unknown_tokens(value: Json, pointer: str, context: CheckContext) -> list[Fault]:
    if context.on_events:
        return link_faults(value, context.links, pointer)
    return template_faults(value, context.columns, pointer)


def _delay_faults(raw: object, context: CheckContext, *, on_expiry: bool) -> list[Fault]:
    _, faults = read_delay(
        raw,
        place=context.place,
        schedule_kind=context.schedule_kind,
        pointer="",
        on_expiry=on_expiry,
    )
    if not isinstance(raw, dict):
        return faults
    link = raw.get("trackingLink")
    tokens = under("/trackingLink", recordless_link_faults(link, context))
    faults += tokens or _unknown_tokens(link, "/trackingLink", context)
    on_expire = raw.get("on_expire")
    if on_expiry or not isinstance(on_expire, list):
        return faults
    inner = on_expire[:MAX_ACTIONS]
    return faults + _list_faults(
        inner, "/on_expire", lambda action: _action_faults(action, context, on_expiry=True)
    )
