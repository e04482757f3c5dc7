"""Column types of a table: which cells are valid, and how cells compare."""

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal["text", "number", "checkbox", "select", "date", "datetime", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; ``id`` keys the cells of a record and is never given twice in a table."""

    id: str
    name: str
    type: ColumnType
    options: tuple[str, ...] = ()
