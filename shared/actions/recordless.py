"""What actions must not do where there is no row (spec 1 §2 and §6, spec 3 §1)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from shared.actions.action import CheckContext
from shared.actions.row_targets import is_on_row
from shared.domain.faults import MAX_TOLD, child, cut
from shared.domain.strict_json import Json
from shared.domain.templates import has_row_token, row_token_pointers
from shared.errors import Fault

CRON_REFUSAL = "cron schedules are recordless — '$row' tokens and row-targeted actions are invalid"
_NO_RECORD = "interval/daily schedule triggers fire with no record"
_ON_ROWS = ("update_record", "delete_record")


def recordless_faults(action: Mapping[str, Any], context: CheckContext) -> list[Fault]:
    """Return what the action's place does not let it do; it may be of any shape."""
    if action["type"] == "materialize_slots":
        return _daily_faults(context)
    if context.on_events:
        return list(islice(_event_faults(action, context), MAX_TOLD))
    match context.schedule_kind:
        case "cron":
            return list(islice(_cron_faults(action), MAX_TOLD))
        case "interval" | "daily":
            return list(_table_level_faults(action))
        case _:
            return []


def recordless_link_faults(link: Json, context: CheckContext) -> list[Fault]:
    """Return why the link that a delay watches cannot be known where there is no row."""
    if not any(True for _ in row_token_pointers(link, on_events=context.on_events)):
        return []
    if context.on_events:
        return [_row_token_fault("", context)]
    match context.schedule_kind:
        case "cron":
            return [_fault("cron_action_not_allowed", "", CRON_REFUSAL)]
        case "interval" | "daily":
            message = f"delay trackingLink: '$row' tokens require record context — {_NO_RECORD}"
            return [_fault("record_context_required", "", message)]
        case _:
            return []


def _daily_faults(context: CheckContext) -> list[Fault]:
    """Refuse what only a daily trigger may have; a schedule of no kind is at fault itself."""
    if not context.on_events and context.on == "schedule":
        place = f"{context.schedule_kind} schedule"
        if context.schedule_kind in (None, "daily"):
            return []
    else:
        place = context.place if context.on_events else f"{context.on} trigger"
    message = f"materialize_slots is only allowed in a daily schedule trigger, not in a {place}"
    return [_fault("daily_only", "/type", message)]


def _event_faults(action: Mapping[str, Any], context: CheckContext) -> Iterator[Fault]:
    on_row = action["type"] in _ON_ROWS
    if on_row:
        message = (
            f"{action['type']} cannot stand in a {context.place}: it has no table, and no row of it"
        )
        yield _fault("row_target_not_allowed", "/target", message)
    for key, value in action.items():
        if key == "target" and on_row:
            continue
        for pointer in row_token_pointers(value, child("", key), on_events=True):
            yield _row_token_fault(pointer, context)


def _row_token_fault(pointer: str, context: CheckContext) -> Fault:
    message = f"a {context.place} has no row: '$row' tokens are invalid"
    return _fault("row_token_not_allowed", pointer, message)


def _cron_faults(action: Mapping[str, Any]) -> Iterator[Fault]:
    on_row = action["type"] in _ON_ROWS and is_on_row(action)
    if on_row:
        yield _fault("cron_action_not_allowed", "/target", CRON_REFUSAL)
    for key, value in action.items():
        if key == "target" and on_row:
            continue
        for pointer in row_token_pointers(value, child("", key)):
            yield _fault("cron_action_not_allowed", pointer, CRON_REFUSAL)


def _table_level_faults(action: Mapping[str, Any]) -> Iterator[Fault]:
    match action["type"]:
        case "delete_record":
            message = f"delete_record requires record context — {_NO_RECORD}"
            yield _fault("record_context_required", "/target", message)
        case "update_record" if is_on_row(action):
            message = f"update_record requires record context — {_NO_RECORD}"
            yield _fault("record_context_required", "/target", message)
        case "start_workflow" if has_row_token(action.get("line_user_id")):
            message = f"start_workflow line_user_id requires record context — {_NO_RECORD}"
            yield _fault("record_context_required", "/line_user_id", message)
        case "invoke_command" if isinstance(action.get("inputs"), dict):
            for name, value in action["inputs"].items():
                if has_row_token(value):
                    message = (
                        f"invoke_command input '{cut(name)}': "
                        f'"$row" tokens require record context — {_NO_RECORD}'
                    )
                    yield _fault("record_context_required", child("/inputs", name), message)


def _fault(code: str, pointer: str, message: str) -> Fault:
    return Fault(code=code, pointer=pointer, message=message)
