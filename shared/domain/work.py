"""What the life cycles of work share: references to rows, announcements, when to try again."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol
from uuid import UUID

WorkKind = Literal["trigger_run", "scheduled_action"]
"""A table whose rows go through the life cycle of work; its name stands in messages too."""

ReferenceKind = Literal[WorkKind, "staged_change"]
"""A table to whose rows messages refer: those of work, and changes that are to be applied."""

MAX_RETRIES = 3
"""Executions after the first, since the start or the last retry by hand, unless set otherwise."""

MAX_WORKER_LOSSES = 5
"""Workers that work may lose before it ends as failed."""

_FIRST_DELAY_SECONDS = 5.0
_DELAY_FACTOR = 4.0
_LONGEST_DELAY_SECONDS = 24 * 3600.0


class Reference(NamedTuple):
    """Says "look at this row"; it is void once the row's token has changed."""

    id: int
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A row that waits, was just marked as announced, and is now to be published.

    ``tenant_id``, and of a step ``execution_id``, are for traces; None where nobody knows.
    """

    kind: ReferenceKind
    id: int
    token: UUID
    urgent: bool
    worker_losses: int
    announcements: int
    tenant_id: UUID | None = None
    execution_id: UUID | None = None


class Claimed(Protocol):
    """A row that a worker holds, or has been offered and is to end in one transaction."""

    @property
    def work_kind(self) -> ReferenceKind:
        """The table it stands in."""

    @property
    def id(self) -> int:
        """Its key there."""

    @property
    def tenant_id(self) -> UUID:
        """Whose it is."""

    @property
    def lease_token(self) -> UUID:
        """Under which it is held; each write names it."""

    @property
    def attempts(self) -> int:
        """The retry budget that is used, this execution included."""

    @property
    def starts(self) -> int:
        """Every start so far; only grows."""

    @property
    def worker_losses(self) -> int:
        """How many workers it has lost."""

    @property
    def depth(self) -> int:
        """Of the chain of causes that led here."""

    @property
    def open_action(self) -> int | None:
        """The position of an action that may have been sent without a receipt."""

    @property
    def action_results(self) -> list[dict[str, Any]]:
        """The receipts so far."""

    @property
    def unreadable(self) -> str | None:
        """Why it could not be read; then nothing of it may be executed."""


MAX_CANCELLED = 10_000
"""Rows that one bulk cancel ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelCounts:
    """What a bulk cancel found pending, and how many of these it ended."""

    matched: int
    cancelled: int


def retry_delay_seconds(
    *,
    attempts: int,
    jitter: float,
    retry_after: float | None = None,
    max_retries: int = MAX_RETRIES,
) -> float | None:
    """Return how long work waits after its ``attempts``-th execution failed for now.

    None: the budget is spent. ``jitter`` is a random number in [0, 1): 5, 20, 80 s grow by up to
    half of themselves, so that what failed together does not return together. ``retry_after`` is
    the seconds that a receiver asked for; it is obeyed, from 1 s up to a day.
    """
    if attempts > max_retries:
        return None
    if retry_after is not None:
        return min(max(retry_after, 1.0), _LONGEST_DELAY_SECONDS) * (1 + jitter / 10)
    seconds = _FIRST_DELAY_SECONDS * _DELAY_FACTOR ** (attempts - 1)
    return min(seconds, _LONGEST_DELAY_SECONDS) * (1 + jitter / 2)
