"""``when`` predicates: reading them, and telling which rows match (spec 2 §5).

A cell that cannot be compared matches no comparison; a missing one (null or absent, for dates blank
too) matches ``neq``, ``not_in`` and ``not_contains``.

A hundred predicates with a thousand values each may look at one cell of 100,000 characters, for
each of a thousand rows: a cell is read once for a row, and values are looked up, not gone through.
"""

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from shared.domain.columns import Column, ColumnType
from shared.domain.comparable import comparable, key_of
from shared.domain.faults import MAX_TOLD, child, cut, unknown_key, unknown_keys
from shared.domain.strict_json import Json
from shared.errors import Fault
from shared.schedule.cells import is_missing

Op = Literal[
    "eq",
    "neq",
    "gt",
    "gte",
    "lt",
    "lte",
    "in",
    "not_in",
    "contains",
    "not_contains",
    "is_empty",
    "not_empty",
    "changed",
]
OPS: tuple[Op, ...] = get_args(Op)

T = TypeVar("T")

_KEYS = ("column", "op", "value")
MAX_PREDICATES = 100
MAX_VALUES = 1000

_WITHOUT_VALUE = frozenset({"is_empty", "not_empty", "changed"})
_ORDERING = frozenset({"gt", "gte", "lt", "lte"})
_CONTAINMENT = frozenset({"contains", "not_contains"})
_ORDERED: frozenset[ColumnType] = frozenset({"text", "number", "select", "date", "datetime"})
_COSTLY: frozenset[ColumnType] = frozenset({"date", "datetime", "json"})
_CONTAINING: frozenset[ColumnType] = frozenset({"text", "select", "json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """One condition on a cell.

    ``operand`` is the authored value in the form in which the op compares it, None for the ops that
    take no value.
    """

    column: Column
    op: Op
    operand: object = None


class _Part(NamedTuple):
    """What a text or a list may contain; ``text`` is None where it is no text."""

    text: str | None
    key: Hashable


def read_when(
    raw: object, columns: Iterable[Column], *, on: str | None, pointer: str = "/when"
) -> tuple[tuple[Predicate, ...], list[Fault]]:
    """Return the predicates of a list of ``{column, op, value?}``, or what is wrong with it.

    ``on`` is the trigger's, None outside of one: ``changed`` is for ``record_updated`` only. The
    predicates are complete only without faults, whose codes are ``when_column_missing`` and
    ``when_predicate_invalid``.
    """
    if not isinstance(raw, list) or len(raw) > MAX_PREDICATES:
        message = f"when must be a list of at most {MAX_PREDICATES} predicates"
        return (), [_invalid(pointer, message)]
    by_name = {column.name: column for column in columns}
    predicates: list[Predicate] = []
    faults: list[Fault] = []
    for index, entry in enumerate(raw):
        predicate, found = read_predicate(entry, by_name, on=on, pointer=child(pointer, index))
        if predicate is not None:
            predicates.append(predicate)
        faults += found
        if len(faults) >= MAX_TOLD:
            break
    return tuple(predicates), faults


def read_predicate(
    entry: object, by_name: Mapping[str, Column], *, on: str | None, pointer: str
) -> tuple[Predicate | None, list[Fault]]:
    """Return one predicate on the columns ``by_name``, or None and what is wrong with it."""
    faults = _predicate_faults(entry, by_name, on=on, pointer=pointer)
    if faults or not isinstance(entry, dict):
        return None, faults
    column = by_name[entry["column"]]
    return Predicate(column=column, op=entry["op"], operand=_operand(entry, column)), []


def _predicate_faults(
    entry: object, by_name: Mapping[str, Column], *, on: str | None, pointer: str
) -> list[Fault]:
    if not isinstance(entry, dict):
        return [_invalid(pointer, "a predicate must be an object {column, op, value?}")]
    faults = [
        _invalid(child(pointer, key), unknown_key(key, "a predicate", _KEYS))
        for key in unknown_keys(entry, _KEYS)
    ]
    name, op = entry.get("column"), entry.get("op")
    column = by_name.get(name) if isinstance(name, str) else None
    if column is None:
        faults.append(_column_fault(name, child(pointer, "column")))
    if op not in OPS:
        message = f"a predicate's op must be one of: {', '.join(OPS)}"
        faults.append(_invalid(child(pointer, "op"), message))
    elif column is not None:
        if (problem := _op_fault(op, column, on)) is not None:
            faults.append(_invalid(child(pointer, "op"), problem))
        elif (problem := _value_fault(entry, op, column)) is not None:
            faults.append(_invalid(child(pointer, "value"), problem))
    return faults


def _column_fault(name: object, pointer: str) -> Fault:
    if not isinstance(name, str):
        return _invalid(pointer, "a predicate must name a column")
    message = f"a condition names the column '{cut(name)}', which the table does not have"
    return Fault(code="when_column_missing", pointer=pointer, message=message)


def _op_fault(op: Op, column: Column, on: str | None) -> str | None:
    if op == "changed" and on != "record_updated":
        return "the op changed is for record_updated triggers only"
    if (op in _ORDERING and column.type not in _ORDERED) or (
        op in _CONTAINMENT and column.type not in _CONTAINING
    ):
        return f"the op {op} does not apply to a {column.type} column"
    return None


def _value_fault(entry: Mapping[str, object], op: Op, column: Column) -> str | None:
    if op in _WITHOUT_VALUE:
        return f"the op {op} takes no value" if "value" in entry else None
    value = entry.get("value")
    if op in ("in", "not_in"):
        if not isinstance(value, list) or len(value) > MAX_VALUES:
            return f"the op {op} takes a list of at most {MAX_VALUES} values"
        values = value
    else:
        values = [value]
    if all(comparable(item, column.type) is not None for item in values):
        return None
    return f"the op {op} on the {column.type} column '{column.name}' takes {_EXPECTED[column.type]}"


_EXPECTED: Mapping[ColumnType, str] = {
    "text": "a text",
    "number": "a number",
    "checkbox": "true or false",
    "select": "a text",
    "date": "a date such as '2026-07-25'",
    "datetime": "a date and time such as '2026-07-25 09:00'",
    "json": "a JSON value other than null",
}


def _operand(entry: Mapping[str, object], column: Column) -> object:
    value = entry.get("value")
    if entry["op"] in _CONTAINMENT:
        return _Part(text=value if isinstance(value, str) else None, key=key_of(value))
    if isinstance(value, list) and entry["op"] in ("in", "not_in"):
        return frozenset(comparable(item, column.type) for item in value)
    return comparable(value, column.type)


def _invalid(pointer: str, message: str) -> Fault:
    return Fault(code="when_predicate_invalid", pointer=pointer, message=message)


def matches(
    predicates: Collection[Predicate],
    data: Mapping[str, Json],
    *,
    before: Mapping[str, Json] | None = None,
) -> bool:
    """Tell whether cells by column id match all predicates.

    ``before`` has the cells before the update; without it ``changed`` counts as true.
    """
    if not predicates:
        return True
    row = _Row(data)
    old = None if before is None else _Row(before)
    return all(_match(predicate, row, old) for predicate in predicates)


class _Row:
    """The cells of a row in the forms that predicates ask for; a costly one is made once."""

    __slots__ = ("_made", "data")

    def __init__(self, data: Mapping[str, Json]) -> None:
        self.data = data
        self._made: dict[tuple[str, str], Any] = {}

    def comparable(self, column: Column) -> Hashable:
        """Return the cell as cells of the column compare, None if it is of no use."""
        if column.type not in _COSTLY:
            return comparable(self.data.get(column.id), column.type)
        return self._once(column, "comparable", lambda cell: comparable(cell, column.type))

    def key(self, column: Column) -> Hashable:
        """Return the key of the cell, whatever it holds."""
        return self._once(column, "key", key_of)

    def items(self, column: Column) -> frozenset[Hashable]:
        """Return the keys of the items of a cell that is a list."""
        return self._once(column, "items", lambda cell: frozenset(map(key_of, cell)))

    def _once(self, column: Column, form: str, make: Callable[[Json], T]) -> T:
        place = column.id, form
        if place not in self._made:
            self._made[place] = make(self.data.get(column.id))
        made: T = self._made[place]
        return made


def _match(predicate: Predicate, row: _Row, before: _Row | None) -> bool:
    column = predicate.column
    cell = row.data.get(column.id)
    match predicate.op:
        case "is_empty":
            return _is_empty(cell)
        case "not_empty":
            return not _is_empty(cell)
        case "changed":
            return before is None or row.key(column) != before.key(column)
        case op if cell is None or (column.type in ("date", "datetime") and is_missing(cell)):
            return op in ("neq", "not_in", "not_contains")
        case "contains":
            return _contains(predicate, row) is True
        case "not_contains":
            return _contains(predicate, row) is False
        case op:
            value = row.comparable(column)
            return value is not None and _COMPARISONS[op](value, predicate.operand)


def _is_empty(cell: object) -> bool:
    return is_missing(cell) or cell == [] or cell == {}


def _contains(predicate: Predicate, row: _Row) -> bool | None:
    """Tell whether a text or list contains the operand; None if the cell cannot contain it."""
    part = predicate.operand
    assert isinstance(part, _Part)
    match row.data[predicate.column.id]:
        case str() as text if part.text is not None:
            return part.text in text
        case list() if predicate.column.type == "json":
            return part.key in row.items(predicate.column)
        case _:
            return None


# The operands of the ordering are of one type by then: the column's, since both sides were read as
# its cells.
_COMPARISONS: Mapping[Op, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "in": lambda value, operand: value in operand,
    "not_in": lambda value, operand: value not in operand,
}
