"""The walk of a date trigger over its table's records: pages in circular order from its cursor.

Tick and preview read the same pages; a tick also acts on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from shared.domain.triggers import TriggerState
from shared.evaluator.date_trigger import ahead_from, identity_length
from shared.queries.backlogs import end_backlog
from shared.queries.record_walk import Audit, Cursor, Stretch, walk_stretch, walk_whole
from shared.queries.trigger_states import move_cursor
from shared.usecases.fire_dates import Fired, date_column, fire_records
from shared.usecases.scheduled_triggers import Ready

MAX_PAGES = 11
"""One page, and up to ten further ones while none has a due row (spec 1 §7)."""

_AUDIT_MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How far a walk got in this tick: from behind ``start`` to ``cursor``, in so many pages.

    ``wrapped``: it went on at the beginning of the table. ``ended``: it has looked at every row.
    """

    start: Cursor | None
    cursor: Cursor | None
    pages: int = 0
    wrapped: bool = False
    ended: bool = False


def begin_walk(state: TriggerState) -> Walk:
    """Return the walk of a tick that begins at the trigger's cursor."""
    return Walk(start=state.cursor, cursor=state.cursor)


def next_page(
    conn: Connection,
    ready: Ready,
    walk: Walk,
    *,
    limit: int,
    before: str | None = None,
    before_again: str | None = None,
) -> tuple[list[int], Walk]:
    """Return the ids of the next page of the walk, at most ``limit``, and the walk behind it.

    The page goes over the end of the table to its beginning; no row comes twice in a walk.
    ``before`` leaves out the rows whose cell is not less, and those that have fired with the cell
    that they have; they count all the same. ``before_again`` does so from the beginning on.
    """
    audit, again = _audit(ready, before), _audit(ready, before_again)
    if walk.wrapped:
        stretches = [walk_stretch(conn, again, after=walk.cursor, up_to=walk.start, limit=limit)]
    else:
        stretches = [walk_stretch(conn, audit, after=walk.cursor, up_to=None, limit=limit)]
    left = limit - stretches[0].count
    wraps_now = not walk.wrapped and left > 0
    if wraps_now and walk.start is not None:
        stretches.append(walk_stretch(conn, again, after=None, up_to=walk.start, limit=left))
    record_ids = [record_id for stretch in stretches for record_id in stretch.record_ids]
    return record_ids, _behind(walk, stretches, limit=limit, wrapped=walk.wrapped or wraps_now)


def _audit(ready: Ready, before: str | None) -> Audit:
    return Audit(
        table_id=ready.table.id,
        trigger_ref=ready.state.ref,
        column_id=date_column(ready).id,
        identity_length=identity_length(ready.trigger),
        before=before,
    )


def _behind(walk: Walk, stretches: Sequence[Stretch], *, limit: int, wrapped: bool) -> Walk:
    reached = [stretch.last for stretch in stretches if stretch.last is not None]
    cursor = reached[-1] if reached else walk.cursor
    is_short = sum(stretch.count for stretch in stretches) < limit
    return Walk(
        start=walk.start,
        cursor=cursor,
        pages=walk.pages + 1,
        wrapped=wrapped,
        ended=wrapped and (is_short or walk.start is None or cursor == walk.start),
    )


def take_page(
    conn: Connection, ready: Ready, walk: Walk, *, limit: int, announced: bool, now: datetime
) -> tuple[Fired, Walk]:
    """Act on the next page and move the trigger's cursor behind it."""
    bound = ahead_from(ready.trigger, now=now)
    before = None if _is_audited(ready.state, now=now) else bound
    # Until it has passed all rows, a walk has come from the beginning to where this one starts.
    again = before if ready.state.caught_up else bound
    record_ids, further = next_page(
        conn, ready, walk, limit=limit, before=before, before_again=again
    )
    fired = fire_records(conn, ready, record_ids, announced=announced, now=now)
    caught_up = further.wrapped and not ready.state.caught_up
    if further.cursor != walk.cursor or caught_up:
        move_cursor(conn, ready.state.ref, cursor=further.cursor, caught_up=caught_up)
    if caught_up and ready.consumes:
        end_backlog(conn, ready.state.ref)
    return fired, further


def is_quiet(conn: Connection, ready: Ready, *, limit: int, now: datetime) -> bool:
    """Tell whether a page has room for all of the table, and ``take_page`` would change nothing."""
    bound = ahead_from(ready.trigger, now=now)
    if bound is None or ready.state.cursor is None or _is_audited(ready.state, now=now):
        return False
    return walk_whole(conn, _audit(ready, bound), limit=limit) == []


def _is_audited(state: TriggerState, *, now: datetime) -> bool:
    """Tell whether this tick also looks at rows that surely lie ahead, to fill the due index.

    It does until the walk has passed all rows, and from then on one minute an hour. The rows that
    may be due it looks at always.
    """
    minute = int(now.timestamp()) // 60
    return not state.caught_up or (minute + state.ref) % _AUDIT_MINUTES == 0
