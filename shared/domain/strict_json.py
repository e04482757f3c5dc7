"""Text to JSON values within bounds: what a client sends is read here, before any schema sees it.

The size of a text is limited by whoever received it, since that has to happen while receiving.
"""

import json
import math
import re
import sys
from collections import Counter
from typing import Any

from shared.errors import Fault, InvalidInput

Json = Any
"""What a JSON text can hold: None, bool, int, float, str, list or dict of the same."""

MAX_DEPTH = 32
MAX_INTEGER = 2**63 - 1
_LARGEST = 10**300

# A text, closed or not, or a bracket. Possessive, so that it is linear on any input.
_TEXT_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def loads(data: bytes, *, max_depth: int = MAX_DEPTH, large_numbers: bool = False) -> Json:
    """Return the JSON value that ``data`` holds.

    ``large_numbers``: numbers out of range are read, cut at 10^300 and the largest float. It is for
    who refuses the text in any case, and only asks what its schema says of them.
    Raises InvalidInput: ``json_not_utf8``, ``json_malformed``, ``json_too_deep``,
    ``json_number_invalid`` (NaN, infinities, overflow, integers beyond 64 bits),
    ``json_duplicate_key``, ``json_text_invalid`` (NUL, lone surrogates).
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refusal("json_not_utf8", "JSON must be UTF-8") from error
    _refuse_too_deep(text, max_depth)
    try:
        value = (_TOLERANT if large_numbers else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise _refusal("json_malformed", f"the text is not JSON: {error.msg} ({where})") from error
    if "\\u" in text:  # only an escape can write what UTF-8 cannot carry
        _refuse_unstorable_text(value)
    return value


def _refusal(code: str, message: str) -> InvalidInput:
    return InvalidInput.of([Fault(code=code, pointer="", message=message)])


def _refuse_too_deep(text: str, max_depth: int) -> None:
    """Count brackets before the parser recurses into them."""
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = 0
    for match in _TEXT_OR_BRACKET.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                message = f"the JSON is nested more than {max_depth} levels deep"
                raise _refusal("json_too_deep", message)
        elif first in "]}":
            depth -= 1


def _refuse_unstorable_text(value: object) -> None:
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                if _UNSTORABLE.search(text):
                    message = "the JSON has a NUL character or a lone surrogate"
                    raise _refusal("json_text_invalid", message)
            case list() as items:
                pending.extend(items)
            case dict() as members:
                pending.extend(members)
                pending.extend(members.values())


def _integer(digits: str) -> int:
    # Length first: int() is quadratic in the digits, and refuses too many with an error of its own.
    if len(digits) > 20 or abs(value := int(digits)) > MAX_INTEGER:
        raise _refusal("json_number_invalid", "the JSON has an integer beyond 64 bits")
    return value


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _refusal("json_number_invalid", "the JSON has a number that is too large")
    return value


def _any_integer(digits: str) -> int:
    if len(digits) <= 300:
        return int(digits)
    return -_LARGEST if digits.startswith("-") else _LARGEST


def _any_number(digits: str) -> float:
    return min(max(float(digits), -sys.float_info.max), sys.float_info.max)


def _constant(name: str) -> float:
    raise _refusal("json_number_invalid", f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        shown = json.dumps(twice[:100])
        raise _refusal("json_duplicate_key", f"the JSON has the key {shown} twice in one object")
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_constant
)
_TOLERANT = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_any_number,
    parse_int=_any_integer,
    parse_constant=_constant,
)
