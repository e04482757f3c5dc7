"""What actions must not do in triggers whose runs have no row (spec 1 §2 and §6)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from shared.actions.action import CheckContext
from shared.actions.row_targets import is_on_row
from shared.domain.faults import MAX_TOLD, child, cut
from shared.domain.templates import has_row_token, row_token_pointers
from shared.errors import Fault

CRON_REFUSAL = "cron schedules are recordless — '$row' tokens and row-targeted actions are invalid"
_NO_RECORD = "interval/daily schedule triggers fire with no record"


def recordless_faults(action: Mapping[str, Any], context: CheckContext) -> list[Fault]:
    """Return what the trigger's schedule does not let the action do; it may be of any shape."""
    match context.schedule_kind:
        case "cron":
            return list(islice(_cron_faults(action), MAX_TOLD))
        case "interval" | "daily":
            return list(_table_level_faults(action))
        case _:
            return []


def _cron_faults(action: Mapping[str, Any]) -> Iterator[Fault]:
    on_row = action["type"] in ("update_record", "delete_record") and is_on_row(action)
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
