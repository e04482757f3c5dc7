"""How two JSON values differ: where, and from what to what."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from shared.domain.faults import child
from shared.domain.strict_json import MAX_INTEGER, Json

Op = Literal["add", "remove", "replace", "rename", "move"]

# From here on Python writes a float with an exponent, and the database gives back an integer.
_WHOLE = 1e16


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference; ``pointer`` leads to its place in what is wanted.

    What is added has no ``before``, what is removed no ``after``: they are None then. ``rename`` is
    of a column that keeps its cells, ``move`` of a list that has what it had in another order.
    """

    op: Op
    pointer: str
    before: Json = None
    after: Json = None


def as_stored(value: Json) -> Json:
    """Return a JSON value with its numbers as the database gives them back."""
    match value:
        case dict():
            return {key: as_stored(member) for key, member in value.items()}
        case list():
            return [as_stored(item) for item in value]
        case float() if abs(value) >= _WHOLE:
            return int(Decimal(repr(value)))
        case float() if value == 0:
            return 0.0  # without a sign
        case _:
            return value


def as_written(value: Json) -> Json:
    """Return a stored JSON value so that a strict reader takes its numbers: the same, as floats."""
    match value:
        case dict():
            return {key: as_written(member) for key, member in value.items()}
        case list():
            return [as_written(item) for item in value]
        case int() if abs(value) > MAX_INTEGER:
            return float(value)
        case _:
            return value


def canonical(value: Json) -> str:
    """Return a text that two values share when they are the same. True is not 1, nor 1 1.0."""
    return json.dumps(value, sort_keys=True)


def differences(before: Json, after: Json, pointer: str = "") -> Iterator[Change]:
    """Give what has to change so that ``before`` becomes ``after``, in document order.

    Lists are compared place by place.
    """
    match before, after:
        case dict(), dict():
            yield from _of_members(before, after, pointer)
        case list(), list():
            for index in range(max(len(before), len(after))):
                yield from _of_place(before, after, index, child(pointer, index))
        case _ if canonical(before) != canonical(after):
            yield Change(op="replace", pointer=pointer, before=before, after=after)


def _of_members(
    before: Mapping[str, Json], after: Mapping[str, Json], pointer: str
) -> Iterator[Change]:
    for key in dict.fromkeys([*after, *before]):
        place = child(pointer, key)
        if key not in before:
            yield Change(op="add", pointer=place, after=after[key])
        elif key not in after:
            yield Change(op="remove", pointer=place, before=before[key])
        else:
            yield from differences(before[key], after[key], place)


def _of_place(before: list[Json], after: list[Json], index: int, place: str) -> Iterator[Change]:
    if index >= len(before):
        yield Change(op="add", pointer=place, after=after[index])
    elif index >= len(after):
        yield Change(op="remove", pointer=place, before=before[index])
    else:
        yield from differences(before[index], after[index], place)
