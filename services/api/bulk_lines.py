"""The lines of an upload as cells: JSON Lines and CSV, read while they arrive.

A line that cannot be a record is refused by itself; the lines around it are not touched.
"""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.domain import strict_json
from shared.domain.columns import Column, read_cells
from shared.errors import Fault, InvalidInput

JSON_LINES = "application/x-ndjson"
CSV = "text/csv"

MAX_LINE_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# A byte that is not UTF-8 becomes a surrogate, so that it spoils its own row alone.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SMALL_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of an upload, counted from 1: its cells by column id, or why it is refused.

    ``raw`` has the bytes up to here since the line before.
    """

    number: int
    raw: bytes
    cells: dict[str, Any] | None
    fault: Fault | None = None


def read_json_lines(pieces: Iterator[bytes], columns: tuple[Column, ...]) -> Iterator[Line]:
    """Yield the lines of a JSON Lines body: an object by column name each; blank ones are skipped.

    They are skipped, but counted, and come with the line after them.
    """
    seen = bytearray()  # adding to bytes copies them: a body of blank lines would take hours
    for number, raw in enumerate(split_lines(pieces), start=1):
        text = raw.removeprefix(_BOM) if number == 1 else raw
        seen += raw
        if text.strip():
            yield _line(number, _taken(seen), partial(_json_cells, text, columns))


def _json_cells(text: bytes, columns: tuple[Column, ...]) -> dict[str, Any]:
    if len(text) > MAX_LINE_BYTES:
        raise _refusal(f"the line has more than {MAX_LINE_BYTES} bytes")
    return read_cells(strict_json.loads(text), columns)


def read_csv(pieces: Iterator[bytes], columns: tuple[Column, ...]) -> Iterator[Line]:
    """Yield the rows of a CSV body behind its header, which names columns.

    An empty field is no cell. Raises InvalidInput ``column_unknown`` or ``column_duplicate`` for
    the header, before any row.
    """
    source = _CsvSource(pieces)
    reader = csv.reader(source, strict=True)
    header = _read_header(source, reader, columns)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fault = Fault(code="line_invalid", pointer="", message=f"the line is no CSV: {error}")
            yield Line(number=reader.line_num, raw=source.taken(), cells=None, fault=fault)
            continue
        if row:
            yield _line(reader.line_num, source.taken(), partial(_row_cells, row, header))


class _CsvSource:
    """Physical lines as text for the CSV reader, which joins those inside quotes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._lines = split_lines(pieces)
        self._raw = bytearray()

    def __iter__(self) -> "_CsvSource":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if len(line) > MAX_LINE_BYTES:
            line = b"\x00"
        self._raw += line
        return line.decode("utf-8", "surrogateescape")

    def taken(self) -> bytes:
        """Return the bytes since the last call."""
        return _taken(self._raw)


def _read_header(
    source: _CsvSource, reader: Iterator[list[str]], columns: tuple[Column, ...]
) -> list[Column]:
    by_name = {column.name: column for column in columns}
    try:
        names = next(reader, [])
    except csv.Error as error:
        raise _refusal(f"the header is no CSV: {error}") from error
    if _UNSTORABLE.search("".join(names)):
        raise _refusal("the header is not UTF-8, has a NUL character, or is too long")
    names = [name.removeprefix("\ufeff") if not index else name for index, name in enumerate(names)]
    for index, name in enumerate(names):
        if name not in by_name:
            message = f"the header names the column '{name[:200]}', which the table does not have"
            raise InvalidInput.of(
                [Fault(code="column_unknown", pointer=f"/{index}", message=message)]
            )
    if len(set(names)) != len(names) or not names:
        message = "the header must name columns, each once"
        raise InvalidInput.of([Fault(code="column_duplicate", pointer="", message=message)])
    return [by_name[name] for name in names]


def _row_cells(row: list[str], header: list[Column]) -> dict[str, Any]:
    if len(row) > len(header):
        raise _refusal(f"the line has {len(row)} fields, the header {len(header)}")
    if _UNSTORABLE.search("".join(row)):
        raise _refusal("the line is not UTF-8, has a NUL character, or is too long")
    named = {
        column.name: _cell(column, text)
        for column, text in zip(header, row, strict=False)
        if text != ""
    }
    return read_cells(named, tuple(header))


def _cell(column: Column, text: str) -> strict_json.Json:
    """Return a field as the JSON value that a cell of the column takes."""
    match column.type:
        case "number" if _SMALL_INTEGER.fullmatch(text):
            return int(text)
        case "checkbox" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "number" | "json":
            try:
                return strict_json.loads(text.encode())
            except InvalidInput as error:
                raise _refusal(f"column '{column.name}' takes {column.type}") from error
        case _:
            return text


def _taken(seen: bytearray) -> bytes:
    """Return what was seen since the last call."""
    raw = bytes(seen)
    seen.clear()
    return raw


def _line(number: int, raw: bytes, cells: Callable[[], dict[str, Any]]) -> Line:
    try:
        return Line(number=number, raw=raw, cells=cells())
    except InvalidInput as error:
        return Line(number=number, raw=raw, cells=None, fault=error.faults[0])


def _refusal(message: str) -> InvalidInput:
    return InvalidInput.of([Fault(code="line_invalid", pointer="", message=message)])


def split_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; of one over the limit just so much that it shows."""
    rest = b""
    for piece in pieces:
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()[: MAX_LINE_BYTES + 1]
        for line in lines:
            yield (line + b"\n")[: MAX_LINE_BYTES + 1]
    if rest:
        yield rest
