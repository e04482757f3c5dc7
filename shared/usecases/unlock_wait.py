"""A click ends a wait: its mark first, committed; then, in a new statement, the waiting row.

Each of the two sides commits its own mark before it looks for the other's: the click its durable
row before it unlocks, the scheduling its waiting row before it unlocks. So whichever commits second
finds what the first one left. With both halves of a click in one transaction a wait that is
recorded at the same time would be missed, since neither would see the other.
"""

from datetime import datetime

import psycopg
import structlog
from psycopg import Connection

from shared.domain.tracking import TrackingLink, is_link_token
from shared.domain.work import Reference
from shared.observability import metrics
from shared.queries import tracking
from shared.queries.notifications import notify_work
from shared.tracking.click_store import ClickStore

_log = structlog.get_logger()

# None of them may keep the sweep from the links behind.
_TROUBLES_OF_A_LINK = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.QueryCanceled,
)


def take_click(
    conn: Connection, link: TrackingLink, *, clicked_at: datetime, clicks: ClickStore
) -> None:
    """Take a click in and unlock what waits for it.

    ``conn`` is in no transaction. Once this returns the click is durable; should the unlocking have
    failed, a sweep repeats it. Raises ``psycopg.Error`` when the click could not be written.
    """
    clicks.mark(conn, link, clicked_at=clicked_at)
    try:
        check_and_complete_delay_wait(conn, link.id)
    except psycopg.OperationalError as error:
        _log.warning("unlock_postponed", link_id=link.id, reason=type(error).__name__)


def find_clicked(conn: Connection, token: str) -> TrackingLink | None:
    """Return the link of a token, None for one that is unknown, or none at all."""
    return tracking.find_link(conn, token) if is_link_token(token) else None


def check_and_complete_delay_wait(conn: Connection, link_id: int) -> list[Reference]:
    """Let the waits on a link go on as clicked, now, if it was clicked in time.

    To be called when a click is committed, and by the sweep for what neither side came to; whoever
    scheduled a wait runs the same UPDATE (``after_schedule``). It decides, so that expiry and click
    never both win. Returned are the rows unlocked by this call: none when there was no click, no
    wait, or somebody else was first. What is more than one
    call unlocks is left to the sweep.
    """
    with conn.transaction():
        # First of all: with this lock nobody is recording a wait that the next statement cannot see
        # yet. Without it the click stays untried, and the sweep comes back.
        settles = tracking.lock_untried(conn, link_id)
        unlocked = tracking.unlock(conn, link_id)
        if unlocked:
            notify_work(conn)
        if settles and not _is_full(unlocked):
            tracking.mark_tried(conn, link_id)
    metrics.WAITS_UNLOCKED.inc(len(unlocked))
    return unlocked


def sweep_clicks(conn: Connection, *, after: int = 0, limit: int) -> int | None:
    """Unlock what untried clicks should have unlocked; return where the next call goes on.

    None: there was no more. A link on which somebody else is at work is left to the next sweep; one
    for which more waits than a call unlocks is where the next call goes on.
    """
    links = tracking.list_untried(conn, after=after, limit=limit)
    for link_id in links:
        try:
            if _is_full(check_and_complete_delay_wait(conn, link_id)):
                return link_id - 1
        except _TROUBLES_OF_A_LINK as error:
            _log.warning("unlock_postponed", link_id=link_id, reason=type(error).__name__)
    return links[-1] if len(links) == limit else None


def _is_full(unlocked: list[Reference]) -> bool:
    """Whether there may be more to unlock than one call does."""
    return len(unlocked) == tracking.UNLOCKED_AT_ONCE
