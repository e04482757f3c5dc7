"""Actions that are not to run now are recorded here, between two looks for a click (spec 3 §3).

Why no click is lost. Whoever schedules a wait (1) looks for a click, (2) commits the row, (3) runs
the unlock in a new statement. Whoever clicks (a) marks Redis, (b) commits the durable click,
(c) runs the same unlock in a new statement. The unlock finds a waiting row and a durable click.

- (b) before (3): the unlock of (3) sees the durable click, and its own row.
- (3) before (b): then (2), which is before (3), is before (c), which is behind (b): the unlock of
  (c) sees the row.

One of the two holds in each of the twenty interleavings, so at least one unlock sees both, and its
conditional UPDATE lets a row have one branch, once. The first look only saves the way round: it
finds what was clicked long before. Without (3), the interleaving 1 b c 2 would lose its click, and
Redis cannot mend it, since its "no" proves nothing. Should the process die between (2) and (3), the
link is still locked until (2) commits (``find_link_to_watch``), so that the sweep of untried clicks
repeats the unlock; at the latest, the deadline finds the durable click. Should a clicker die
between (a) and (b), then whoever believes Redis does (b) in its place (``RedisClicks.clicked_at``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from shared.domain.delays import Delay, delay_of
from shared.domain.scheduled_actions import NewAction
from shared.domain.tracking import TrackingLink, is_link_token, token_in
from shared.domain.work import Reference
from shared.errors import NotFound
from shared.observability import metrics, tracing
from shared.observability.trace_ids import Row
from shared.queries.notifications import notify_work
from shared.queries.scheduled_actions import find_action_id, insert_actions
from shared.queries.tracking import find_link_by_id, find_link_to_watch, unlock
from shared.tracking.click_store import ClickStore

# The scanner looks every two seconds by itself: only what comes before is worth waking it.
_SOON = timedelta(seconds=5)

ON_EXPIRY_ALONE = "on_expiry_alone"
"""Set in the conditions of a wait that are not its own, but those of what its expiry runs."""


class Watched(NamedTuple):
    """A link that a wait watches, and the click that it has had already."""

    link: TrackingLink
    clicked_at: datetime | None


class Recorded(NamedTuple):
    """An action that was recorded; ``link_id`` is the link that it waits for, None for no wait."""

    action_id: int
    link_id: int | None


def schedule(
    conn: Connection,
    request: NewAction,
    *,
    delay: Delay | None,
    link_token: str | None,
    clicks: ClickStore,
    now: datetime,
) -> Recorded:
    """Record an action once for its origin key: after its delay, without one due now.

    ``link_token`` is the rendered ``trackingLink`` of a wait, a token or an address. To be called
    in a transaction; when that has committed, ``after_schedule`` has to follow for a recorded
    ``link_id``. The click store answers at once or not at all, hence it may be asked within. Raises
    NotFound ``tracking_link_not_found``.
    """
    watched = None
    if delay is not None and delay.mode == "waitForTracking":
        watched = watch(conn, request.tenant_id, link_token or "", clicks)
    action = timed(request, delay, watched=watched, now=now)
    inserted = record(conn, [action], now=now)
    action_id = (
        inserted[0].id if inserted else find_action_id(conn, request.tenant_id, request.origin_key)
    )
    assert action_id is not None
    return Recorded(action_id=action_id, link_id=action.tracking_link_id)


def watch(conn: Connection, tenant_id: UUID, token: str, clicks: ClickStore) -> Watched:
    """Return a tenant's link for a wait that this transaction records, with its click so far.

    ``token`` may also be the address that ends in it. Raises NotFound ``tracking_link_not_found``.
    """
    token = token_in(token)
    link = None
    if is_link_token(token):
        link = find_link_to_watch(conn, tenant_id=tenant_id, token=token)
    if link is None:
        raise NotFound(
            "the tracking link to wait for does not exist", code="tracking_link_not_found"
        )
    return Watched(link=link, clicked_at=clicks.clicked_at(conn, link))


def timed(
    request: NewAction, delay: Delay | None, *, watched: Watched | None = None, now: datetime
) -> NewAction:
    """Return the action with its times: after the delay, at once without one.

    A wait, which is ``watched``, stands at its deadline; clicked before, it is decided and due.
    """
    if delay is None:
        return replace(request, execute_at=now, urgent=True, source_config=None)
    at = now + timedelta(seconds=delay.seconds)
    action = replace(
        request,
        execute_at=at,
        source_config=_to_be_judged(request.source_config, delay),
    )
    if delay.mode == "normal":
        return action
    assert watched is not None
    return waiting(action, watched, deadline=at, on_expire=delay.on_expire, now=now)


def _to_be_judged(conditions: Mapping[str, Any] | None, delay: Delay) -> Mapping[str, Any] | None:
    """Return the conditions that are judged again: by the action, or by what its expiry runs."""
    if conditions is None or delay.re_evaluate:
        return conditions
    inner = [delay_of(config) for config in delay.on_expire]
    if any(later is not None and later.re_evaluate for later in inner):
        return {**conditions, ON_EXPIRY_ALONE: True}
    return None


def waiting(
    action: NewAction,
    watched: Watched,
    *,
    deadline: datetime,
    on_expire: tuple[Mapping[str, Any], ...] = (),
    now: datetime,
) -> NewAction:
    """Return the action as a wait for a link until the deadline, or as one that was clicked."""
    clicked = watched.clicked_at is not None and watched.clicked_at < deadline
    return replace(
        action,
        mode="waitForTracking",
        execute_at=now if clicked else deadline,
        expires_at=deadline,
        branch="clicked" if clicked else None,
        on_expire=on_expire or None,
        tracking_link_id=watched.link.id,
        urgent=clicked,
    )


def record(conn: Connection, actions: Sequence[NewAction], *, now: datetime) -> list[Reference]:
    """Record actions, each once; return references to those that were not recorded before.

    If one is due or nearly so, who announces and executes is told at the commit.
    """
    inserted = insert_actions(conn, actions, now=now)
    # A step stands in the trace of its execution: that is made where it is started.
    if tracing.is_on() and inserted and actions[0].execution_id is None:
        for reference in inserted:
            row = Row(actions[0].tenant_id, "scheduled_action", reference.id)
            tracing.current().made("record", row)
    if any(action.execute_at <= now + _SOON for action in actions):
        notify_work(conn)
    return inserted


def after_schedule(conn: Connection, *, tenant_id: UUID, link_id: int, clicks: ClickStore) -> bool:
    """Unlock the waits of a link that was clicked meanwhile; tell whether one was.

    Step (3) above: to be called when the wait has committed, outside its transaction.
    """
    link = find_link_by_id(conn, tenant_id=tenant_id, link_id=link_id)
    if link is None or clicks.clicked_at(conn, link) is None:
        return False
    with conn.transaction():
        unlocked = unlock(conn, link_id)
        if unlocked:
            notify_work(conn)
    metrics.WAITS_UNLOCKED.inc(len(unlocked))
    return bool(unlocked)
