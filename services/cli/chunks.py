"""A file of records cut into uploads: JSON Lines or CSV, gzip too, never inside a record."""

import csv
import gzip
import hashlib
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from shared.errors import InvalidInput

Format = Literal["csv", "jsonl"]
MEDIA: dict[Format, str] = {"csv": "text/csv", "jsonl": "application/x-ndjson"}

# Far below what the API takes, so that a bar moves and a repeated upload costs little.
_CHUNK_BYTES = 4 * 1024 * 1024
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some records of a file, as an upload.

    A line of the upload is the line of the file ``line_offset`` further on.
    """

    body: bytes
    records: int
    line_offset: int

    def key(self, *, salt: str) -> str:
        """Return the Idempotency-Key: the same for the same records at the same place."""
        digest = hashlib.sha256(f"{salt}:{self.line_offset}:".encode() + self.body)
        return f"import-{digest.hexdigest()}"


def format_of(path: Path) -> Format:
    """Return the format that a file's name tells; raises InvalidInput when it tells none."""
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    format = _SUFFIXES.get(suffixes[-1].lower()) if suffixes else None
    if format is None:
        raise InvalidInput(
            f"{path.name} is neither .csv nor .jsonl: say which with --format",
            code="format_unknown",
        )
    return format


def read_lines(path: Path, raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the file's lines; ``raw`` tells how much of the file itself has been read.

    Raises InvalidInput when it comes upon what no gzip file has.
    """
    if path.suffix != ".gz":
        yield from raw
        return
    try:
        with gzip.open(raw) as text:
            yield from text
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        message = f"{path.name} is not a whole gzip file: {error}"
        raise InvalidInput(message, code="gzip_invalid") from error


def cut(
    source: Iterable[bytes], format: Format, *, records: int, null: str | None = None
) -> Iterator[Chunk]:
    """Yield chunks of up to ``records`` records, fewer when they are long.

    A CSV field that is exactly ``null`` becomes an empty one.
    """
    parts = iter(source) if format == "jsonl" else _csv_rows(iter(source), null)
    header = next(parts, b"") if format == "csv" else b""
    lines_before = 0
    for group in _groups(parts, records):
        body = b"".join(group)
        yield Chunk(body=header + body, records=len(group), line_offset=lines_before)
        lines_before += body.count(b"\n")


def _groups(parts: Iterator[bytes], records: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for part in parts:
        if group and (len(group) == records or size + len(part) > _CHUNK_BYTES):
            yield group
            group, size = [], 0
        group.append(part)
        size += len(part)
    if group:
        yield group


class _Lines:
    """Lines as text for the csv module, which joins those inside quotes; their bytes are kept."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source
        self._taken = b""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._source)
        self._taken += line
        return line.decode("utf-8", "surrogateescape")

    def taken(self) -> bytes:
        """Return the bytes since the last call."""
        taken, self._taken = self._taken, b""
        return taken


def _csv_rows(source: Iterator[bytes], null: str | None) -> Iterator[bytes]:
    """Yield the header and the rows as they stand, between the ends that the csv module finds."""
    lines = _Lines(source)
    reader = csv.reader(lines)
    for number in itertools.count():
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            row = []  # what is no CSV the API refuses, and only that
        raw = lines.taken()
        is_rewritten = number > 0 and null in row
        yield _written(["" if text == null else text for text in row]) if is_rewritten else raw


def _written(row: list[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue().encode("utf-8", "surrogateescape")
