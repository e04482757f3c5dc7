"""What the life cycles of work share: references to rows, announcements, when to try again."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Says "look at this row"; it is void once the row's token has changed."""

    id: int
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A pending row that was just marked as announced and is now to be published."""

    id: int
    token: UUID
    urgent: bool
    worker_losses: int
