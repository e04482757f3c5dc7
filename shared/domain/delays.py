"""The ``delay`` of an action: it is to run later, or on a click until a deadline (spec 3 §3)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared.domain.action_lists import action_list_faults
from shared.domain.faults import child, unknown_key, unknown_keys
from shared.domain.scheduled_actions import MAX_DELAY_SECONDS, Mode
from shared.domain.strict_json import Json
from shared.errors import Fault
from shared.schedule.model import ScheduleKind

Place = Literal["trigger", "rule", "workflow"]
"""Where an action stands."""

MAX_LINK = 500
"""Characters of a ``trackingLink``, which may be a template."""

MODES: tuple[Mode, ...] = get_args(Mode)
SECONDS = ("seconds", "expiresSeconds", "delaySeconds")
_KEYS = ("mode", *SECONDS, "trackingLink", "reEvaluateConditions", "on_expire")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A valid delay; ``seconds`` are those until the action runs, or until a wait's deadline.

    ``re_evaluate``: the conditions are to hold again when it comes due. ``tracking_link`` is the
    template of the token or the address of the link that a wait watches, ``on_expire`` what runs
    when nobody clicked; both are those of a wait alone. In a workflow a wait without a link watches
    that of the ``wait_for_tracking`` node nearest before it.
    """

    mode: Mode
    seconds: int
    re_evaluate: bool = False
    tracking_link: str | None = None
    on_expire: tuple[Mapping[str, Any], ...] = ()


def read_delay(
    raw: object,
    *,
    place: Place,
    schedule_kind: ScheduleKind | None,
    pointer: str,
    on_expiry: bool = False,
) -> tuple[Delay | None, list[Fault]]:
    """Return the delay that an author wrote, or None and all its faults.

    ``on_expiry``: of an action that runs when a wait is over, which cannot wait for a click again.
    The faults are ``delay_invalid`` and ``delay_out_of_bounds``. What the actions of ``on_expire``
    take is the registry's to say, and the workflow's whether a wait without a link has one.
    """
    if not isinstance(raw, dict):
        return None, [_fault(pointer, "delay must be an object")]
    faults = [
        *_unknown_keys(raw, pointer),
        *_mode_faults(raw, pointer, on_expiry=on_expiry),
        *_seconds_faults(raw, pointer),
        *_link_faults(raw, pointer, place),
        *_condition_faults(raw, pointer, schedule_kind),
        *_expiry_faults(raw, pointer, on_expiry=on_expiry),
    ]
    return (None, faults) if faults else (_delay(raw), [])


def delay_of(config: Mapping[str, Any]) -> Delay | None:
    """Return the delay of an action that was checked, None when it has none."""
    return _delay(config["delay"]) if "delay" in config else None


def without_delay(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action's settings as they are executed when its delay is over."""
    return {key: value for key, value in config.items() if key != "delay"}


def actions_within(action: Json) -> Iterator[tuple[str, Json]]:
    """Give an action and those that run should it expire, each with its pointer from the action.

    It may be of any shape; what is no action is given as it is.
    """
    yield "", action
    delay = action.get("delay") if isinstance(action, dict) else None
    on_expire = delay.get("on_expire") if isinstance(delay, dict) else None
    if isinstance(on_expire, list):
        for index, inner in enumerate(on_expire):
            yield f"/delay/on_expire/{index}", inner


def seconds_fault(value: object, pointer: str, name: str) -> Fault | None:
    """Return why a value is no length of a delay, None if it is one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return _fault(pointer, f"{name} must be a whole number of seconds")
    if not 1 <= value <= MAX_DELAY_SECONDS:
        message = f"{name} must be from 1 to {MAX_DELAY_SECONDS}, which is 366 days"
        return Fault(code="delay_out_of_bounds", pointer=pointer, message=message)
    return None


def _delay(raw: Mapping[str, Any]) -> Delay:
    re_evaluate = raw.get("reEvaluateConditions", False)
    if raw.get("mode", "normal") == "normal":
        return Delay(mode="normal", seconds=raw["seconds"], re_evaluate=re_evaluate)
    deadline = raw["expiresSeconds"] if "expiresSeconds" in raw else raw["delaySeconds"]
    return Delay(
        mode="waitForTracking",
        seconds=deadline,
        re_evaluate=re_evaluate,
        tracking_link=raw.get("trackingLink"),
        on_expire=tuple(raw.get("on_expire", ())),
    )


def _unknown_keys(raw: Mapping[str, Any], pointer: str) -> Iterator[Fault]:
    for key in unknown_keys(raw, _KEYS):
        yield _fault(child(pointer, key), unknown_key(key, "a delay", _KEYS))


def _mode_faults(raw: Mapping[str, Any], pointer: str, *, on_expiry: bool) -> Iterator[Fault]:
    mode = raw.get("mode", "normal")
    if mode not in MODES:
        yield _fault(child(pointer, "mode"), f"delay mode must be one of: {', '.join(MODES)}")
    elif mode == "waitForTracking" and on_expiry:
        message = "an action of on_expire cannot wait for a click again"
        yield _fault(child(pointer, "mode"), message)


def _seconds_faults(raw: Mapping[str, Any], pointer: str) -> Iterator[Fault]:
    """Give the faults of all lengths, those too that the mode does not look at."""
    for key in SECONDS:
        if key in raw:
            fault = seconds_fault(raw[key], child(pointer, key), f"delay {key}")
            if fault is not None:
                yield fault
    mode = raw.get("mode", "normal")
    if mode == "normal" and "seconds" not in raw:
        yield _fault(child(pointer, "seconds"), "a delay of mode normal must have seconds")
    elif mode == "waitForTracking" and not {"expiresSeconds", "delaySeconds"} & raw.keys():
        message = "a delay of mode waitForTracking must have expiresSeconds or delaySeconds"
        yield _fault(child(pointer, "expiresSeconds"), message)


def _link_faults(raw: Mapping[str, Any], pointer: str, place: Place) -> Iterator[Fault]:
    if "trackingLink" not in raw:
        if raw.get("mode") == "waitForTracking" and place != "workflow":
            message = "a delay of mode waitForTracking must have the trackingLink that it watches"
            yield _fault(child(pointer, "trackingLink"), message)
        return
    link = raw["trackingLink"]
    if not isinstance(link, str) or not 1 <= len(link) <= MAX_LINK:
        message = f"delay trackingLink must be a text of 1 to {MAX_LINK} characters"
        yield _fault(child(pointer, "trackingLink"), message)


def _condition_faults(
    raw: Mapping[str, Any], pointer: str, schedule_kind: ScheduleKind | None
) -> Iterator[Fault]:
    again = raw.get("reEvaluateConditions", False)
    where = child(pointer, "reEvaluateConditions")
    if not isinstance(again, bool):
        yield _fault(where, "delay reEvaluateConditions must be true or false")
    elif again and schedule_kind in ("interval", "daily", "cron"):
        message = f"a {schedule_kind} trigger has no conditions that could be judged again"
        yield _fault(where, message)


def _expiry_faults(raw: Mapping[str, Any], pointer: str, *, on_expiry: bool) -> Iterator[Fault]:
    if "on_expire" not in raw:
        return
    where = child(pointer, "on_expire")
    if on_expiry:
        yield _fault(where, "an action of on_expire has no on_expire of its own")
        return
    name = "delay on_expire"
    yield from action_list_faults(raw["on_expire"], where, name=name, code="delay_invalid")


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="delay_invalid", pointer=pointer, message=message)
