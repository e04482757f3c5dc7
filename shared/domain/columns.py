"""Column types of a table: which cells are valid, and the forms in which they travel.

Records keep their cells by column id, people and HTTP name the columns: this is where one becomes
the other. How cells compare is in ``conditions``.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared.domain.faults import MAX_TOLD, child, cut, unknown_key, unknown_keys
from shared.domain.strict_json import MAX_DEPTH, Json
from shared.errors import Fault, InvalidInput

ColumnType = Literal["text", "number", "checkbox", "select", "date", "datetime", "json"]
COLUMN_TYPES: tuple[ColumnType, ...] = get_args(ColumnType)

_KEYS = ("id", "name", "type", "options")
MAX_COLUMNS = 200
MAX_NAME = 200
MAX_OPTIONS = 500
MAX_CELL_TEXT = 10_000
MAX_CELL_JSON = 100_000
MAX_RECORD = 262_144
"""Characters that the text and JSON cells of a record have together."""
MAX_JSON_VALUES = 10_000
"""Values that the JSON cells of a record have together: as objects, each takes many characters."""
_ID = re.compile("c[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; ``id`` keys its cells and is never given twice in a table.

    ``options`` are the texts a select column takes; no other type has any.
    """

    id: str
    name: str
    type: ColumnType
    options: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the stored form: ``{id, name, type, options?}``."""
        stored: dict[str, Json] = {"id": self.id, "name": self.name, "type": self.type}
        if self.options:
            stored["options"] = list(self.options)
        return stored


def column_from_json(stored: Mapping[str, Any]) -> Column:
    """Return the column whose ``to_json`` is ``stored``."""
    return Column(
        id=stored["id"],
        name=stored["name"],
        type=stored["type"],
        options=tuple(stored.get("options", ())),
    )


def read_columns(
    raw: object, *, existing: tuple[Column, ...] = (), made: int, from_elsewhere: bool = False
) -> tuple[tuple[Column, ...], int]:
    """Return the columns that an author wrote, and how many ids the table has given by now.

    ``raw`` is a list of ``{id?, name, type, options?}``. An entry with an id is that column of
    ``existing``; one without is the column of its name, or a new one. ``made`` is the number of ids
    given before. ``from_elsewhere``: the ids may be those of the table's like in another tenant.
    One that ``existing`` lacks makes a new column under it, but counts for nothing where the name
    is known, or where it was given before: a dropped column's cells do not come back.
    Raises InvalidInput: ``columns_invalid``, ``column_invalid``, ``column_duplicate``,
    ``column_unknown``.
    """
    if not isinstance(raw, list) or len(raw) > MAX_COLUMNS:
        message = f"columns must be a list of at most {MAX_COLUMNS} columns"
        raise InvalidInput.of([Fault(code="columns_invalid", pointer="", message=message)])
    faults = [fault for index, entry in enumerate(raw) for fault in _entry_faults(index, entry)]
    if not faults:
        faults = _list_faults(raw, None if from_elsewhere else {column.id for column in existing})
    if faults:
        raise InvalidInput.of(faults)
    if from_elsewhere:
        raw = _at_home(raw, existing, made)
        made = max([made, *map(_number, raw)])
    named = {entry["id"] for entry in raw if "id" in entry}
    by_name = {column.name: column.id for column in existing if column.id not in named}
    columns = []
    for entry in raw:
        column_id = entry.get("id") or by_name.get(entry["name"])
        if column_id is None:
            made += 1
            column_id = f"c{made}"
        columns.append(column_from_json({**entry, "id": column_id}))
    return tuple(columns), made


def _at_home(
    raw: list[dict[str, Any]], existing: tuple[Column, ...], made: int
) -> list[dict[str, Any]]:
    """Return the entries without the ids that count for nothing in this table."""
    known = {column.id for column in existing}
    claimed = {entry.get("id") for entry in raw}
    names = {column.name for column in existing if column.id not in claimed}
    return [
        entry
        if entry.get("id") in known or (_number(entry) > made and entry["name"] not in names)
        else {key: value for key, value in entry.items() if key != "id"}
        for entry in raw
    ]


def _number(entry: Mapping[str, Any]) -> int:
    """Return the number in the id of an entry, 0 for one without an id."""
    return int(entry["id"][1:]) if "id" in entry else 0


def _entry_faults(index: int, entry: object) -> list[Fault]:
    pointer = child("", index)
    if not isinstance(entry, dict):
        return [_fault("column_invalid", pointer, "a column must be an object")]
    faults = [
        _fault("column_invalid", child(pointer, key), unknown_key(key, "a column", _KEYS))
        for key in unknown_keys(entry, _KEYS)
    ]
    if "id" in entry and not isinstance(entry["id"], str):
        faults.append(_fault("column_invalid", child(pointer, "id"), "a column id must be a text"))
    if message := _name_fault(entry.get("name")):
        faults.append(_fault("column_invalid", child(pointer, "name"), message))
    if entry.get("type") not in COLUMN_TYPES:
        message = f"a column type must be one of: {', '.join(COLUMN_TYPES)}"
        faults.append(_fault("column_invalid", child(pointer, "type"), message))
    elif message := _options_fault(entry):
        faults.append(_fault("column_invalid", child(pointer, "options"), message))
    return faults


def _name_fault(name: object) -> str | None:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        return f"a column name must be a text of 1 to {MAX_NAME} characters"
    if "}" in name:
        return "a column name must not contain '}', which ends it in a ${row.<column>} token"
    return None


def _options_fault(entry: Mapping[str, Any]) -> str | None:
    if entry["type"] != "select":
        return "only a select column has options" if "options" in entry else None
    options = entry.get("options")
    if not isinstance(options, list) or not 1 <= len(options) <= MAX_OPTIONS:
        return f"a select column must have a list of 1 to {MAX_OPTIONS} options"
    if not all(isinstance(option, str) and 1 <= len(option) <= MAX_NAME for option in options):
        return f"an option must be a text of 1 to {MAX_NAME} characters"
    if len(set(options)) != len(options):
        return "an option must not stand twice"
    return None


def _list_faults(raw: list[dict[str, Any]], known: set[str] | None) -> list[Fault]:
    """Return what is wrong with the entries together; ``known`` is None for any ids."""
    faults = []
    names: set[str] = set()
    ids: set[str] = set()
    for index, entry in enumerate(raw):
        name, column_id = entry["name"], entry.get("id")
        pointer = child("", index)
        if name in names:
            message = f"the column name '{name}' stands twice"
            faults.append(_fault("column_duplicate", child(pointer, "name"), message))
        if column_id in ids:
            message = f"the column id '{column_id}' stands twice"
            faults.append(_fault("column_duplicate", child(pointer, "id"), message))
        elif column_id is None:
            pass
        elif known is None and not _ID.fullmatch(column_id):
            message = "a column id must be 'c' and a number of at most nine digits"
            faults.append(_fault("column_invalid", child(pointer, "id"), message))
        elif known is not None and column_id not in known:
            message = f"the table has no column with the id '{cut(column_id)}'"
            faults.append(_fault("column_unknown", child(pointer, "id"), message))
        names.add(name)
        if column_id is not None:
            ids.add(column_id)
    return faults


def _fault(code: str, pointer: str, message: str) -> Fault:
    return Fault(code=code, pointer=pointer, message=message)


def cell_fault(column: Column, value: object) -> str | None:
    """Return what is wrong with ``value`` as a cell of the column, or None.

    Null is a cell of every column. Date cells are any text: one that does not parse is kept as it
    was written, and never comes due (spec 4 §3).
    """
    return None if value is None else _CELL_FAULTS[column.type](column, value)


def _text_fault(column: Column, value: object) -> str | None:
    if isinstance(value, str) and len(value) <= MAX_CELL_TEXT and "\x00" not in value:
        return None
    return f"column '{column.name}' takes a text of at most {MAX_CELL_TEXT} characters"


def _number_fault(column: Column, value: object) -> str | None:
    if is_number(value):
        return None
    return f"column '{column.name}' takes a number"


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number, which a boolean is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)  # of an integer: as a float
    except OverflowError:
        return False


def _checkbox_fault(column: Column, value: object) -> str | None:
    return None if isinstance(value, bool) else f"column '{column.name}' takes true or false"


def _select_fault(column: Column, value: object) -> str | None:
    if isinstance(value, str) and value in column.options:
        return None
    return f"column '{column.name}' takes one of its options"


def _json_fault(column: Column, value: object) -> str | None:
    if not _is_shallow(value, MAX_DEPTH):
        return f"column '{column.name}' takes JSON of at most {MAX_DEPTH} levels"
    if len(json.dumps(value, ensure_ascii=False)) > MAX_CELL_JSON:
        return f"column '{column.name}' takes JSON of at most {MAX_CELL_JSON} characters"
    return None


def _is_shallow(value: object, levels: int) -> bool:
    match value:
        case dict():
            return levels > 0 and all(_is_shallow(item, levels - 1) for item in value.values())
        case list():
            return levels > 0 and all(_is_shallow(item, levels - 1) for item in value)
        case _:
            return True


_CELL_FAULTS: Mapping[ColumnType, Callable[[Column, object], str | None]] = {
    "text": _text_fault,
    "number": _number_fault,
    "checkbox": _checkbox_fault,
    "select": _select_fault,
    "date": _text_fault,
    "datetime": _text_fault,
    "json": _json_fault,
}


def read_cells(raw: object, columns: tuple[Column, ...], pointer: str = "") -> dict[str, Json]:
    """Return the cells of ``raw``, an object by column name, by column id; absent ones stay so.

    Raises InvalidInput: ``cells_invalid``, ``column_unknown``, ``cell_invalid``,
    ``record_too_large``.
    """
    if not isinstance(raw, dict):
        message = "cells must be an object by column name"
        raise InvalidInput.of([_fault("cells_invalid", pointer, message)])
    by_name = {column.name: column for column in columns}
    cells: dict[str, Json] = {}
    faults: list[Fault] = []
    for name, value in raw.items():
        column = by_name.get(name)
        if column is None:
            message = f"the table has no column '{cut(name)}'"
            faults.append(_fault("column_unknown", child(pointer, name), message))
        elif problem := cell_fault(column, value):
            faults.append(_fault("cell_invalid", child(pointer, name), problem))
        else:
            cells[column.id] = value
        if len(faults) == MAX_TOLD:
            break
    if faults:
        raise InvalidInput.of(faults)
    check_size(cells, pointer)
    return cells


def size_of(cells: Mapping[str, Json]) -> int:
    """Return how many characters the text and JSON cells of a record have together."""
    size = 0
    for cell in cells.values():
        kind = type(cell)
        if kind is str:
            size += len(cell)
        elif kind is list or kind is dict:
            size += len(json.dumps(cell, ensure_ascii=False))
    return size


def check_size(cells: Mapping[str, Json], pointer: str = "") -> None:
    """Raise InvalidInput ``record_too_large`` for cells that are too long to be one record.

    Each may be as long as a cell can be: a row of them all would be as long as a hundred bodies.
    """
    values = sum([count_values(cell) for cell in cells.values() if type(cell) in _HOLDERS])
    if size_of(cells) > MAX_RECORD:
        message = f"the cells of a record have at most {MAX_RECORD} characters together"
    elif values > MAX_JSON_VALUES:
        message = f"the JSON of a record has at most {MAX_JSON_VALUES} values together"
    else:
        return
    raise InvalidInput.of([_fault("record_too_large", pointer, message)])


_HOLDERS = frozenset({list, dict})


def count_values(value: list[Json] | dict[str, Json]) -> int:
    """Return how many values a list or an object holds, at whatever depth."""
    inside = value.values() if isinstance(value, dict) else value
    return len(value) + sum([count_values(item) for item in inside if type(item) in _HOLDERS])


def cells_by_name(data: Mapping[str, Json], columns: tuple[Column, ...]) -> dict[str, Json]:
    """Return the cells of a record by column name, in the table's order; a missing cell is None."""
    return {column.name: data.get(column.id) for column in columns}
