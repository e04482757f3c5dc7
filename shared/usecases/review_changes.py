"""Staged changes in the hands of a moderator: approved or rejected, one or many."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.staged_changes import StagedChange, Verdict, review_refusal
from shared.errors import Conflict
from shared.queries import staged_changes
from shared.queries.change_lists import ChangeFilter, get_change
from shared.queries.notifications import notify_work


class Review(NamedTuple):
    """Who decides, None for the admin, and why, if they say so."""

    reviewed_by: UUID | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCounts:
    """What a bulk review did; ``more``: it stopped at its limit, and others may be left."""

    reviewed: int
    more: bool


def approve_change(
    conn: Connection, table: CustomTable, change_id: int, review: Review, *, now: datetime
) -> StagedChange:
    """Let a worker apply a pending change, and return it.

    Raises NotFound, Conflict ``staged_change_not_pending``.
    """
    with conn.transaction():
        change = _review(conn, table, change_id, review, "approved", staged_changes.approve, now)
        notify_work(conn)
        return change


def reject_change(
    conn: Connection, table: CustomTable, change_id: int, review: Review, *, now: datetime
) -> StagedChange:
    """End a pending change without effect, and return it; raises as ``approve_change``."""
    with conn.transaction():
        return _review(conn, table, change_id, review, "rejected", staged_changes.reject, now)


def _review(
    conn: Connection,
    table: CustomTable,
    change_id: int,
    review: Review,
    verdict: Verdict,
    decide: Callable[..., bool],
    now: datetime,
) -> StagedChange:
    is_decided = decide(conn, table, change_id, **review._asdict(), now=now)
    change = get_change(conn, table, change_id)
    if not is_decided:
        raise Conflict(review_refusal(change, verdict), code="staged_change_not_pending")
    return change


def review_changes(
    conn: Connection,
    table: CustomTable,
    filter: ChangeFilter,
    verdict: Verdict,
    review: Review,
    *,
    limit: int,
    now: datetime,
) -> ReviewCounts:
    """Approve or reject the pending changes that a filter finds, the oldest first."""
    with conn.transaction():
        reviewed = staged_changes.review_matching(
            conn, table, filter, verdict, **review._asdict(), limit=limit, now=now
        )
        if reviewed and verdict == "approved":
            notify_work(conn)
    return ReviewCounts(reviewed=reviewed, more=reviewed == limit)
