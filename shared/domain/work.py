"""What the life cycles of work share: references to rows, announcements, when to try again."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

MAX_RETRIES = 3
"""Executions after the first, since the start or the last retry by hand (spec 2 §2)."""

MAX_WORKER_LOSSES = 5
"""Workers that work may lose before it ends as failed."""

_FIRST_DELAY_SECONDS = 5.0
_DELAY_FACTOR = 4.0
_MAX_RETRY_AFTER_SECONDS = 24 * 3600.0


class Reference(NamedTuple):
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
    announcements: int


def retry_delay_seconds(
    *, attempts: int, jitter: float, retry_after: float | None = None
) -> float | None:
    """Return how long work waits after its ``attempts``-th execution failed for now.

    None: the budget is spent. ``jitter`` is a random number in [0, 1): 5, 20, 80 s grow by up to
    half of themselves, so that what failed together does not return together. ``retry_after`` is
    the seconds that a receiver asked for; it is obeyed, from 1 s up to a day.
    """
    if attempts > MAX_RETRIES:
        return None
    if retry_after is not None:
        return min(max(retry_after, 1.0), _MAX_RETRY_AFTER_SECONDS) * (1 + jitter / 10)
    return _FIRST_DELAY_SECONDS * _DELAY_FACTOR ** (attempts - 1) * (1 + jitter / 2)
