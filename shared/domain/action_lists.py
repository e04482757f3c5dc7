"""Lists of actions as far as no action type is asked: their bounds, types, and common choices."""

from collections.abc import Iterator

from shared.domain.faults import child
from shared.errors import Fault

MAX_ACTIONS = 20

_CHOICES = {"on_error": ("stop", "continue"), "on_unknown": ("retry", "fail")}


def action_list_faults(raw: object, pointer: str, *, name: str, code: str) -> Iterator[Fault]:
    """Give what is wrong with a list of actions that messages call ``name``."""
    if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_ACTIONS:
        message = f"{name} must be a list of 1 to {MAX_ACTIONS} actions"
        yield Fault(code=code, pointer=pointer, message=message)
        return
    for index, action in enumerate(raw):
        yield from action_faults(action, child(pointer, index), code=code)


def action_faults(action: object, pointer: str, *, code: str) -> Iterator[Fault]:
    """Give why the registry cannot be asked about an action, and its wrong common choices."""
    if not isinstance(action, dict):
        yield Fault(code=code, pointer=pointer, message="an action must be an object")
        return
    if not isinstance(action.get("type"), str):
        message = "an action must have a type, which is a text"
        yield Fault(code=code, pointer=child(pointer, "type"), message=message)
    for key, choices in _CHOICES.items():
        if key in action and action[key] not in choices:
            message = f"{key} must be one of: {', '.join(choices)}"
            yield Fault(code=code, pointer=child(pointer, key), message=message)
