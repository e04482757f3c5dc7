"""From JSON to a schedule: limits, exact messages, and the normal form that is stored.

The only place that knows what may be authored.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, time, tzinfo
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeGuard

from shared.errors import Fault, InvalidInput
from shared.schedule.cron import CronRule, collapse_blanks, quoted, read_expression
from shared.schedule.model import Cron, Daily, DateColumnReached, Interval, Schedule
from shared.schedule.zones import find_zone

_MAX_OFFSET_MINUTES = 30 * 24 * 60
_MIN_EVERY_SECONDS = 60
_MAX_EVERY_SECONDS = 30 * 24 * 60 * 60
_MAX_KEYS = 100
_TIME_OF_DAY = re.compile("([01][0-9]|2[0-3]):([0-5][0-9])")


class ScheduleError(InvalidInput):
    """The schedule breaks a rule; code and message are those of its first fault."""


class _Refused(Exception):
    """One value is refused; the reader of the whole knows where it stands."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Kind(NamedTuple):
    """The keys of a kind beside ``type``, each with its reader. An absent key is read as null."""

    required: dict[str, Callable[[object], Any]]
    optional: dict[str, Callable[[object], Any]]
    build: Callable[[dict[str, Any]], Schedule]


def parse_schedule(raw: object) -> Schedule:
    """Return the schedule that an authored or stored JSON object describes.

    Raises ScheduleError with the first fault's code and message, and all faults.
    """
    values, faults = _read(raw)
    if faults:
        raise ScheduleError.of(faults)
    return _KINDS[values.pop("type")].build(values)


def schedule_faults(raw: object) -> tuple[Fault, ...]:
    """Return all that is wrong with a schedule, pointers relative to it; empty if it parses.

    Faults are in the order of the document's keys, absent keys last. Of an unknown type only the
    type is told. Whether the column exists is the table's matter.
    """
    return tuple(_read(raw)[1])


def normal_form(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the schedule as it is stored: written defaults dropped, cron blanks collapsed.

    Never raises: what is invalid stays as authored, for the reader to refuse. So does an offset
    that only equals 0, as False and 0.0 do.
    """
    if not isinstance(raw, dict):
        return raw
    normal = dict(raw)
    kind = raw.get("type")
    if kind == "date_column_reached":
        offset = raw.get("offset_minutes")
        if _is_integer(offset) and offset == 0:
            del normal["offset_minutes"]
    if kind in ("daily", "cron") and raw.get("timezone") == "UTC":
        del normal["timezone"]
    if kind == "cron" and isinstance(expression := raw.get("expression"), str):
        normal["expression"] = collapse_blanks(expression)
    return normal


def _read(raw: object) -> tuple[dict[str, Any], list[Fault]]:
    """Return the values of the keys that could be read, and the faults of the others."""
    if not isinstance(raw, dict):
        message = "schedule must be an object"
        return {}, [Fault(code="schedule_object_missing", pointer="", message=message)]
    name = raw.get("type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return {}, [_unsupported_type(name)]
    readers: dict[str, Callable[[object], Any]] = {"type": str, **kind.required, **kind.optional}
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    # Beyond so many keys there are unknown ones enough.
    for key in (*islice(raw, _MAX_KEYS), *(key for key in kind.required if key not in raw)):
        try:
            if key not in readers:
                raise _Refused("stored_schedule_invalid", _unknown_key(key, name, readers))
            values[key] = readers[key](raw.get(key))
        except _Refused as refused:
            pointer = "/" + str(key).replace("~", "~0").replace("/", "~1")
            faults.append(Fault(code=refused.code, pointer=pointer, message=refused.message))
    return values, faults


def _unsupported_type(name: object) -> Fault:
    shown = name if isinstance(name, str) else _json_text(name)
    message = f"invalid schedule type '{shown}'. valid types: {', '.join(_KINDS)}"
    return Fault(code="unsupported_schedule_type", pointer="/type", message=message)


def _unknown_key(key: object, kind: object, readers: dict[str, Any]) -> str:
    return f"{kind} schedule has an unknown key {quoted(str(key))}. keys: {', '.join(readers)}"


def _read_column(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    message = "date_column_reached column must name a date or datetime column"
    raise _Refused("schedule_column_missing", message)


def _read_offset(value: object) -> int:
    if _is_integer(value) and -_MAX_OFFSET_MINUTES <= value <= _MAX_OFFSET_MINUTES:
        return value
    limits = f"[-{_MAX_OFFSET_MINUTES}, {_MAX_OFFSET_MINUTES}]"
    message = (
        f"date_column_reached offset_minutes must be an integer in {limits} "
        "(negative = before the column instant, positive = after)"
    )
    raise _Refused("offset_minutes_invalid", message)


def _read_every(value: object) -> int:
    if _is_integer(value) and _MIN_EVERY_SECONDS <= value <= _MAX_EVERY_SECONDS:
        return value
    limits = f"[{_MIN_EVERY_SECONDS}, {_MAX_EVERY_SECONDS}]"
    message = f"interval every_seconds must be an integer in {limits}"
    raise _Refused("interval_seconds_invalid", message)


def _read_at(value: object) -> time:
    found = _TIME_OF_DAY.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        return time(int(found[1]), int(found[2]))
    message = "daily schedule at must be a time of day 'HH:MM' from 00:00 to 23:59"
    raise _Refused("daily_time_invalid", message)


def _read_expression(value: object) -> tuple[str, CronRule]:
    if not isinstance(value, str):
        message = "cron schedule invalid: expression must be text with five fields"
        raise _Refused("cron_expression_invalid", message)
    expression = collapse_blanks(value)
    try:
        return expression, read_expression(expression)
    except ValueError as reason:
        message = f"cron schedule invalid: {reason}"
        raise _Refused("cron_expression_invalid", message) from reason


def _read_timezone(kind: str, value: object) -> tzinfo:
    if not isinstance(value, str):
        message = f"{kind} schedule timezone must be an IANA name string (e.g. 'Asia/Taipei')"
        raise _Refused("timezone_invalid", message)
    zone = find_zone(value)
    if zone is not None:
        return zone
    message = (
        f"{kind} schedule timezone '{value}' is not a known IANA zone. "
        "use an IANA name like 'Asia/Taipei' or 'America/New_York'"
    )
    raise _Refused("timezone_invalid", message)


def _daily(values: dict[str, Any]) -> Daily:
    return Daily(at=values["at"], zone=values.get("timezone", UTC))


def _cron(values: dict[str, Any]) -> Cron:
    expression, rule = values["expression"]
    return Cron(expression=expression, rule=rule, zone=values.get("timezone", UTC))


def _is_integer(value: object) -> TypeGuard[int]:
    """Tell integers from the booleans and floats that equal them."""
    return isinstance(value, int) and not isinstance(value, bool)


def _json_text(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # not JSON, thousands of digits, too deep
        return type(value).__name__


_KINDS = {
    "date_column_reached": _Kind(
        required={"column": _read_column},
        optional={"offset_minutes": _read_offset},
        build=lambda values: DateColumnReached(**values),
    ),
    "interval": _Kind(
        required={"every_seconds": _read_every},
        optional={},
        build=lambda values: Interval(**values),
    ),
    "daily": _Kind(
        required={"at": _read_at},
        optional={"timezone": partial(_read_timezone, "daily")},
        build=_daily,
    ),
    "cron": _Kind(
        required={"expression": _read_expression},
        optional={"timezone": partial(_read_timezone, "cron")},
        build=_cron,
    ),
}
