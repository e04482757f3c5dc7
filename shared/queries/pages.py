"""Pages of rows that may be large: a few are read at a time, until they are enough."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MAX_CHARACTERS = 8_000_000
"""Characters after which a page ends: one call reads no more, but for a last batch."""

_BATCH = 20


class _Numbered(Protocol):
    @property
    def id(self) -> int:
        """By which rows are ordered, where nothing else is said."""
        ...


Row = TypeVar("Row")
Place = TypeVar("Place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """Rows in the order of their list; ``more``: others follow behind the last one."""

    items: list[Row]
    more: bool


def id_of(row: _Numbered) -> int:
    """Return the place of a row in a list that is ordered by ids."""
    return row.id


def read_page(
    read: Callable[[Place, int], list[Row]],
    *,
    after: Place,
    limit: int,
    size: Callable[[Row], int],
    place: Callable[[Row], Place],
    batch_size: int = _BATCH,
) -> Page[Row]:
    """Return up to ``limit`` rows behind ``after``; fewer when they are large, but one at least.

    ``read`` returns the first rows behind a place, as many as it is told; ``size`` is how many
    characters a row has, ``place`` where it stands.
    """
    found: list[Row] = []
    room = MAX_CHARACTERS
    while True:
        wanted = min(limit + 1 - len(found), batch_size)
        batch = read(after, wanted)
        for row in batch:
            if len(found) == limit or room < 0:
                return Page(items=found, more=True)
            found.append(row)
            room -= size(row)
            after = place(row)
        if len(batch) < wanted:
            return Page(items=found, more=False)
