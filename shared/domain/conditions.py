"""``when`` predicates: reading them, and telling which rows match (spec 2 §5).

How cells compare: numbers numerically, dates as instants by the rules of date cells, text and
select by code point, checkboxes and JSON by equality in which true is not 1. A cell that cannot be
compared matches no comparison; a missing one (null or absent, for dates blank too) matches ``neq``,
``not_in`` and ``not_contains``.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared.domain.columns import Column, ColumnType, is_number
from shared.domain.faults import MAX_TOLD, child, cut, unknown_keys
from shared.domain.strict_json import Json
from shared.errors import Fault
from shared.schedule.cells import is_missing, parse_cell

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

MAX_PREDICATES = 100
MAX_VALUES = 1000

_WITHOUT_VALUE = frozenset({"is_empty", "not_empty", "changed"})
_ORDERING = frozenset({"gt", "gte", "lt", "lte"})
_CONTAINMENT = frozenset({"contains", "not_contains"})
_ORDERED: frozenset[ColumnType] = frozenset({"text", "number", "select", "date", "datetime"})
_CONTAINING: frozenset[ColumnType] = frozenset({"text", "select", "json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """One condition on a cell.

    ``operand`` is the authored value in comparable form (dates as instants): a tuple for ``in`` and
    ``not_in``, None for the ops that take no value.
    """

    column: Column
    op: Op
    operand: object = None


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
        found = _predicate_faults(entry, by_name, on=on, pointer=child(pointer, index))
        if not found:
            column = by_name[entry["column"]]
            operand = _operand(entry, column)
            predicates.append(Predicate(column=column, op=entry["op"], operand=operand))
        faults += found
        if len(faults) >= MAX_TOLD:
            break
    return tuple(predicates), faults


def _predicate_faults(
    entry: object, by_name: Mapping[str, Column], *, on: str | None, pointer: str
) -> list[Fault]:
    if not isinstance(entry, dict):
        return [_invalid(pointer, "a predicate must be an object {column, op, value?}")]
    faults = [
        _invalid(child(pointer, key), f"unknown key '{cut(key)}' in a predicate")
        for key in unknown_keys(entry, ("column", "op", "value"))
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
    message = f"when names the column '{cut(name)}', which the table does not have"
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
    if isinstance(value, list) and entry["op"] in ("in", "not_in"):
        return tuple(comparable(item, column.type) for item in value)
    return comparable(value, column.type)


def _invalid(pointer: str, message: str) -> Fault:
    return Fault(code="when_predicate_invalid", pointer=pointer, message=message)


def comparable(cell: object, column_type: ColumnType) -> object:
    """Return the cell as cells of its column compare, or None if it is missing or of no use."""
    match column_type:
        case "number":
            return cell if is_number(cell) else None
        case "text" | "select":
            return cell if isinstance(cell, str) else None
        case "checkbox":
            return cell if isinstance(cell, bool) else None
        case "date" | "datetime":
            read = parse_cell(cell, column_type)
            return None if read is None else read.instant
        case "json":
            return cell


def matches(
    predicates: Iterable[Predicate],
    data: Mapping[str, Json],
    *,
    before: Mapping[str, Json] | None = None,
) -> bool:
    """Tell whether cells by column id match all predicates.

    ``before`` has the cells before the update; without it ``changed`` counts as true.
    """
    return all(_match(predicate, data, before) for predicate in predicates)


def _match(
    predicate: Predicate, data: Mapping[str, Json], before: Mapping[str, Json] | None
) -> bool:
    column = predicate.column
    cell = data.get(column.id)
    match predicate.op:
        case "is_empty":
            return _is_empty(cell)
        case "not_empty":
            return not _is_empty(cell)
        case "changed":
            return before is None or not _same(cell, before.get(column.id))
        case op:
            if cell is None or (column.type in ("date", "datetime") and is_missing(cell)):
                return op in ("neq", "not_in", "not_contains")
            value = comparable(cell, column.type)
            return value is not None and _COMPARISONS[op](value, predicate.operand)


def _is_empty(cell: object) -> bool:
    return is_missing(cell) or cell == [] or cell == {}


def _same(one: object, other: object) -> bool:
    """Tell whether two values are equal as JSON is: 1 is 1.0, but never true."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case _:
            return one == other


def _contains(value: object, operand: object) -> bool | None:
    """Tell whether a text or list contains the operand; None if the value cannot contain it."""
    match value, operand:
        case str(), str():
            return operand in value
        case list(), _:
            return any(_same(item, operand) for item in value)
        case _:
            return None


# The operands of the ordering are of one type by then: the column's, since both sides were read as
# its cells.
_COMPARISONS: Mapping[Op, Callable[[Any, Any], bool]] = {
    "eq": _same,
    "neq": lambda value, operand: not _same(value, operand),
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "in": lambda value, operand: any(_same(value, item) for item in operand),
    "not_in": lambda value, operand: not any(_same(value, item) for item in operand),
    "contains": lambda value, operand: _contains(value, operand) is True,
    "not_contains": lambda value, operand: _contains(value, operand) is False,
}
