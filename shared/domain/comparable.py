"""Cells in the form in which they compare.

Numbers compare numerically, dates as instants by the rules of date cells, text and select by code
point, checkboxes and JSON by equality in which true is not 1.
"""

import json
from collections.abc import Hashable
from typing import cast

from shared.domain.columns import ColumnType, is_number
from shared.domain.strict_json import Json
from shared.schedule.cells import parse_cell

_ENCODER = json.JSONEncoder(sort_keys=True)


def comparable(cell: object, column_type: ColumnType) -> Hashable:
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
            return None if cell is None else key_of(cell)


def key_of(value: Json) -> Hashable:
    """Return what is equal of two JSON values that are equal: 1 is 1.0, but never true."""
    match value:
        case str():
            return f'"{value}'
        case bool() | None | dict() | list():
            return _ENCODER.encode(_with_whole_numbers(value))
        case _:
            return cast(Hashable, value)


def _with_whole_numbers(value: Json) -> Json:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_whole_numbers(item) for item in value]
        case dict():
            return {name: _with_whole_numbers(item) for name, item in value.items()}
        case _:
            return value
