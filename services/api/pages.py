"""Pages of lists: one item more than asked for tells that there is a next page."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from services.api.cursors import Position
from services.api.routes import Answer, Call

Item = TypeVar("Item")


def page_size(call: Call) -> int:
    """Return how many items to ask for: the limit of the call and one more."""
    return int(call.query["limit"]) + 1


def page(
    call: Call,
    found: Sequence[Item],
    *,
    more: bool | None = None,
    position: Callable[[Item], Position],
    document: Callable[[Item], Any],
) -> Answer:
    """Return ``{items, next_cursor}``: the items found as documents, at most the call's limit.

    ``more``: there is a next page; None: there is if more were found than the limit.
    """
    items = found[: call.query["limit"]]
    if more is None:
        more = len(found) > len(items)
    body = {
        "items": [document(item) for item in items],
        "next_cursor": call.cursors.seal(position(items[-1])) if more else None,
    }
    return Answer(body=body)


def created_position(created_at: datetime, id: UUID | int) -> Position:
    """Return the position of an item in a list ordered by (created_at, id)."""
    return created_at.isoformat(), str(id)


def after_uuid(call: Call) -> tuple[datetime, UUID] | None:
    """Return (created_at, id) behind which the page begins, of items with UUIDs."""
    if call.position is None:
        return None
    created_at, id = call.position
    return datetime.fromisoformat(str(created_at)), UUID(str(id))


def after_id(call: Call) -> int | None:
    """Return the id behind which the page begins, of items ordered by their number."""
    return None if call.position is None else int(call.position[0])
