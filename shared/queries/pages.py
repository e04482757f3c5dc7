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
        """By which the rows are ordered."""
        ...


Row = TypeVar("Row", bound=_Numbered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """Rows by their ids; ``more``: others follow behind the last one."""

    items: list[Row]
    more: bool


def read_page(
    read: Callable[[int, int], list[Row]],
    *,
    after: int | None,
    limit: int,
    size: Callable[[Row], int],
) -> Page[Row]:
    """Return up to ``limit`` rows behind ``after``; fewer when they are large, but one at least.

    ``read`` returns the first rows behind an id, as many as it is told; ``size`` is how many
    characters a row has.
    """
    found: list[Row] = []
    room = MAX_CHARACTERS
    last = after or 0
    while True:
        wanted = min(limit + 1 - len(found), _BATCH)
        batch = read(last, wanted)
        for row in batch:
            if len(found) == limit or room < 0:
                return Page(items=found, more=True)
            found.append(row)
            room -= size(row)
            last = row.id
        if len(batch) < wanted:
            return Page(items=found, more=False)
