"""The walk of a date trigger over its table's records: pages in circular order from its cursor.

Tick and preview read the same pages; a tick also acts on them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import structlog
from psycopg import Connection

from shared.domain.triggers import TriggerState
from shared.queries.record_walk import WalkKey, WalkRow, walk_keys, walk_page
from shared.queries.trigger_states import move_cursor
from shared.usecases.fire_dates import Fired, date_column, fire_records, fire_rows, when_ids
from shared.usecases.retrying import concerns_whole
from shared.usecases.scheduled_triggers import Ready

_log = structlog.get_logger()

Cursor = tuple[datetime, int]

MAX_PAGES = 11
"""One page, and up to ten further ones while none has a due row (spec 1 §7)."""


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


class _Placed(Protocol):
    """A row, or its key alone."""

    @property
    def record_id(self) -> int: ...

    @property
    def created_at(self) -> datetime: ...


P = TypeVar("P", bound=_Placed)


def read_page(
    conn: Connection, ready: Ready, walk: Walk, *, limit: int
) -> tuple[list[WalkRow], Walk]:
    """Return the next page of the walk, at most ``limit`` rows, and the walk behind it.

    The page goes over the end of the table to its beginning; no row comes twice in a walk.
    """

    def read(cursor: Cursor | None, limit: int) -> list[WalkRow]:
        return walk_page(
            conn,
            table_id=ready.table.id,
            trigger_ref=ready.state.ref,
            column_id=date_column(ready).id,
            when_ids=when_ids(ready),
            cursor=cursor,
            limit=limit,
        )

    return _next_page(read, walk, limit)


def read_keys(
    conn: Connection, ready: Ready, walk: Walk, *, limit: int
) -> tuple[list[WalkKey], Walk]:
    """Return the keys of the records on the page that ``read_page`` would return."""

    def read(cursor: Cursor | None, limit: int) -> list[WalkKey]:
        return walk_keys(conn, table_id=ready.table.id, cursor=cursor, limit=limit)

    return _next_page(read, walk, limit)


def _next_page(
    read: Callable[[Cursor | None, int], list[P]], walk: Walk, limit: int
) -> tuple[list[P], Walk]:
    rows = read(walk.cursor, limit)
    wraps_now = not walk.wrapped and len(rows) < limit
    if walk.wrapped:
        rows = _up_to(walk.start, rows)
    elif wraps_now and walk.start is not None:
        rows = rows + _up_to(walk.start, read(None, limit - len(rows)))
    wrapped = walk.wrapped or wraps_now
    cursor = _place(rows[-1]) if rows else walk.cursor
    is_short = len(rows) < limit
    return rows, Walk(
        start=walk.start,
        cursor=cursor,
        pages=walk.pages + 1,
        wrapped=wrapped,
        ended=wrapped and (is_short or walk.start is None or cursor == walk.start),
    )


def _up_to(start: Cursor | None, rows: Sequence[P]) -> list[P]:
    return [row for row in rows if start is not None and _place(row) <= start]


def _place(row: _Placed) -> Cursor:
    return row.created_at, row.record_id


def take_page(
    conn: Connection, ready: Ready, walk: Walk, *, limit: int, announced: bool, now: datetime
) -> tuple[Fired, Walk]:
    """Act on the next page and move the trigger's cursor behind it, whole or not at all.

    Of a page that fails, the records are taken by themselves and the culprits set aside.
    """
    try:
        with conn.transaction():
            rows, further = read_page(conn, ready, walk, limit=limit)
            fired = fire_rows(conn, ready, rows, announced=announced, now=now)
            _move_cursor(conn, ready.state, walk, further)
            return fired, further
    except Exception as error:
        if concerns_whole(error):
            raise
        _log.warning(
            "page_failed",
            table_id=str(ready.table.id),
            trigger_id=ready.state.trigger_id,
            reason=str(error),
        )
    return _take_page_apart(conn, ready, walk, limit=limit, announced=announced, now=now)


def _take_page_apart(
    conn: Connection, ready: Ready, walk: Walk, *, limit: int, announced: bool, now: datetime
) -> tuple[Fired, Walk]:
    with conn.transaction():
        keys, further = read_keys(conn, ready, walk, limit=limit)
        fired = fire_records(
            conn, ready, [key.record_id for key in keys], announced=announced, now=now
        )
        _move_cursor(conn, ready.state, walk, further)
    return fired, further


def _move_cursor(conn: Connection, state: TriggerState, walk: Walk, further: Walk) -> None:
    caught_up = further.wrapped and not state.caught_up
    if further.cursor != walk.cursor or caught_up:
        move_cursor(conn, state.ref, cursor=further.cursor, caught_up=caught_up)
