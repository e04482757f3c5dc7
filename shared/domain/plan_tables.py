"""The tables that a document names: their columns, and what it renames."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from shared.domain.bundles import Line
from shared.domain.column_renames import Renames
from shared.domain.columns import Column, read_columns
from shared.domain.differences import Change, differences
from shared.domain.faults import child, under
from shared.domain.records import Approval, CustomTable
from shared.domain.strict_json import Json
from shared.errors import Fault, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A table as it stands and is to be, without its triggers.

    ``stored`` is None when the document makes it, ``line`` when the document leaves it as it is.
    """

    name: str
    stored: CustomTable | None
    line: Line | None
    columns: tuple[Column, ...]

    @property
    def approval(self) -> Approval:
        """The approval that it is to have: a line that says none leaves it."""
        standing: Approval = self.stored.approval if self.stored else "none"
        return self.line.body.get("approval", standing) if self.line else standing

    @property
    def channel_id(self) -> UUID | None:
        """The channel that it has, or is made in."""
        if self.stored is not None:
            return self.stored.channel_id
        said = self.line.body.get("channel_id") if self.line else None
        return UUID(said) if said else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRename:
    """Columns of a stored table that a document renames: old name to new name."""

    table_id: UUID
    renames: Renames


def read_head(name: str, stored: CustomTable | None, line: Line | None) -> tuple[Head, list[Fault]]:
    """Return a table of a document, or what is wrong with its line.

    The faults are those of ``read_columns``, and ``table_channel_fixed``.
    """
    columns = stored.columns if stored else ()
    faults: list[Fault] = []
    if line is not None:
        try:
            columns = _columns(line, stored)
        except InvalidInput as error:
            faults += under("/columns", error.faults)
        faults += _channel_faults(line, stored)
    return Head(name=name, stored=stored, line=line, columns=columns), faults


def _columns(line: Line, stored: CustomTable | None) -> tuple[Column, ...]:
    existing = stored.columns if stored else ()
    made = stored.columns_made if stored else 0
    raw = line.body["columns"]
    return read_columns(raw, existing=existing, made=made, from_elsewhere=True)[0]


def _channel_faults(line: Line, stored: CustomTable | None) -> Iterator[Fault]:
    if stored is None or "channel_id" not in line.body:
        return
    if line.body["channel_id"] != (stored.channel_id and str(stored.channel_id)):
        message = "the channel of a table is chosen when it is made, and stays"
        yield Fault(code="table_channel_fixed", pointer="/channel_id", message=message)


def renames_of(heads: Sequence[Head]) -> list[TableRename]:
    """Return what a document renames, table by table."""
    found = []
    for head in heads:
        if head.stored is not None and (renames := _renames(head.stored.columns, head.columns)):
            found.append(TableRename(table_id=head.stored.id, renames=renames))
    return found


def _renames(before: Sequence[Column], after: Sequence[Column]) -> dict[str, str]:
    old = {column.id: column.name for column in before}
    pairs = ((old[column.id], column.name) for column in after if column.id in old)
    return {before: after for before, after in pairs if before != after}


def table_changes(head: Head, stored: CustomTable) -> Iterator[Change]:
    """Give how a table changes; a column is told by its id, not by its place."""
    if head.approval != stored.approval:
        yield Change(op="replace", pointer="/approval", before=stored.approval, after=head.approval)
    yield from _column_changes(stored.columns, head.columns)


def _column_changes(before: Sequence[Column], after: Sequence[Column]) -> Iterator[Change]:
    old = {column.id: column for column in before}
    kept = {column.id for column in after}
    for index, column in enumerate(after):
        place = child("/columns", index)
        if column.id in old:
            yield from _kept_column(old[column.id], column, place)
        else:
            yield Change(op="add", pointer=place, after=column.to_json())
    for column in before:
        if column.id not in kept:
            yield Change(op="remove", pointer="/columns", before=column.to_json())
    yield from moves(
        "/columns",
        [column.id for column in before if column.id in kept],
        [column.id for column in after if column.id in old],
        {column.id: column.name for column in after},
    )


def _kept_column(before: Column, after: Column, place: str) -> Iterator[Change]:
    for change in differences(before.to_json(), after.to_json(), place):
        is_name = change.pointer == child(place, "name")
        yield replace(change, op="rename") if is_name else change


def moves(
    pointer: str, before: list[Any], after: list[Any], told: Mapping[Any, Json]
) -> Iterator[Change]:
    """Give the change of a list that has the same in another order; ``told`` is what each is."""
    if before != after:
        yield Change(
            op="move",
            pointer=pointer,
            before=[told[one] for one in before],
            after=[told[one] for one in after],
        )
