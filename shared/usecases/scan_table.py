"""One table in a tick: its triggers evaluated under its lock, in transactions of about a second."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import NamedTuple
from uuid import UUID

import structlog
from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.runs import RunKind
from shared.domain.work import Reference
from shared.lifecycle import monotonic
from shared.observability import metrics
from shared.queries.due_tables import claim_table, mark_scanned
from shared.queries.notifications import notify_work
from shared.queries.trigger_states import list_states
from shared.usecases.fire_clocks import fire_clock
from shared.usecases.fire_dates import release
from shared.usecases.retrying import concerns_whole, retried
from shared.usecases.scheduled_triggers import Ready, scanned_triggers, schedule_triggers
from shared.usecases.walk import MAX_PAGES, Walk, begin_walk, take_page

_log = structlog.get_logger()

LOCK_SECONDS = 1.0
"""After so long a transaction commits at the end of a page, and the table is claimed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a tick asks of every table. ``announced``: the caller publishes the references.

    ``turn_seconds``: a table that takes longer waits for its next turn, so that no other waits for
    it; never before a transaction has ended.
    """

    now: datetime
    record_limit: int
    announced: bool
    lock_seconds: float = LOCK_SECONDS
    turn_seconds: float = inf


class Turn(NamedTuple):
    """A table to be scanned, when it was the last time, and the triggers that had their turn."""

    table_id: UUID
    scanned_at: datetime
    done: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What has come of a table so far, all of it committed.

    ``created`` counts its runs by kind. ``done`` are the triggers that need no further look in this
    tick, ``walks`` how far those on dates got. ``unfinished``: a walk stopped at a page with due
    rows, or has not yet passed all rows, or the turn was over.
    """

    has_schedules: bool = False
    references: tuple[Reference, ...] = ()
    created: Mapping[RunKind, int] = field(default_factory=dict)
    unfinished: bool = False
    complete: bool = False
    done: frozenset[str] = frozenset()
    walks: Mapping[str, Walk] = field(default_factory=dict)


def scan_table(
    conn: Connection, turn: Turn, order: Order, *, claim: Callable[[], CustomTable | None]
) -> Scan | None:
    """Evaluate a table's triggers and return what came of it; None when it was not to be had.

    ``claim`` locks the table and notes the scan, in the first transaction. What fails is logged and
    counted; a table whose first transaction failed has its scan noted all the same.
    """
    scan: Scan | None = None
    table_id = turn.table_id
    ends_at = monotonic() + order.turn_seconds
    try:
        scan = retried(lambda: _part(conn, table_id, order, Scan(done=turn.done), claim))
        while scan is not None and not scan.complete:
            if monotonic() >= ends_at:
                scan = replace(scan, unfinished=True)
                break
            further = retried(_next_part(conn, table_id, order, scan))
            if further is None:
                break
            scan = further
    except Exception as error:
        if conn.closed:
            raise
        metrics.TICK_FAILURES.labels("table").inc()
        _log.exception("table_failed", table_id=str(table_id), reason=str(error))
        if scan is None:
            mark_scanned(conn, table_id, now=order.now)
            scan = Scan()
    for kind, count in scan.created.items() if scan else ():
        metrics.RUNS_CREATED.labels(kind).inc(count)
    return scan


def _next_part(
    conn: Connection, table_id: UUID, order: Order, scan: Scan
) -> Callable[[], Scan | None]:
    return lambda: _part(conn, table_id, order, scan, lambda: claim_table(conn, table_id))


def _part(
    conn: Connection,
    table_id: UUID,
    order: Order,
    scan: Scan,
    claim: Callable[[], CustomTable | None],
) -> Scan | None:
    """Do one transaction's worth; None when the claim was refused."""
    with conn.transaction():
        table = claim()
        if table is None:
            return None
        until = monotonic() + order.lock_seconds
        met = schedule_triggers(table, list_states(conn, table_id))
        scan = replace(scan, has_schedules=bool(met))
        before = len(scan.references)
        scan = _evaluate_until(until, conn, scanned_triggers(met), order, scan)
        if len(scan.references) > before and not order.announced:
            notify_work(conn)
        return scan


def _evaluate_until(
    until: float, conn: Connection, triggers: list[Ready], order: Order, scan: Scan
) -> Scan:
    for ready in triggers:
        scan = _resume(ready, scan)
        while ready.state.trigger_id not in scan.done:
            scan = _evaluate(conn, ready, order, scan)
            if monotonic() >= until:
                return scan
    return replace(scan, complete=True)


def _resume(ready: Ready, scan: Scan) -> Scan:
    """Leave a walk that an edit restarted between two transactions to the next tick."""
    walk = scan.walks.get(ready.state.trigger_id)
    if walk is None or walk.cursor == ready.state.cursor:
        return scan
    return _done(ready, replace(scan, unfinished=True))


def _done(ready: Ready, scan: Scan) -> Scan:
    return replace(scan, done=scan.done | {ready.state.trigger_id})


def _evaluate(conn: Connection, ready: Ready, order: Order, scan: Scan) -> Scan:
    """Take one trigger one step further. One that fails loses that step alone, and no other."""
    try:
        step = _fire if ready.is_clock else _walk
        return step(conn, ready, order, scan)
    except Exception as error:
        if concerns_whole(conn, error):
            raise
        metrics.TICK_FAILURES.labels("trigger").inc()
        _log.exception(
            "trigger_failed",
            table_id=str(ready.table.id),
            trigger_id=ready.state.trigger_id,
            reason=str(error),
        )
        return _done(ready, scan)


def _fire(conn: Connection, ready: Ready, order: Order, scan: Scan) -> Scan:
    with conn.transaction():
        reference = fire_clock(conn, ready, announced=order.announced, now=order.now)
    return _done(ready, _with_runs(ready, scan, () if reference is None else (reference,)))


def _walk(conn: Connection, ready: Ready, order: Order, scan: Scan) -> Scan:
    trigger_id = ready.state.trigger_id
    fired, walk = take_page(
        conn,
        ready,
        scan.walks.get(trigger_id) or begin_walk(ready.state),
        limit=order.record_limit,
        announced=order.announced,
        now=order.now,
    )
    scan = _with_runs(ready, scan, fired.references)
    scan = replace(scan, walks={**scan.walks, trigger_id: walk})
    if not (walk.ended or fired.found_due or walk.pages == MAX_PAGES):
        return scan
    if not walk.ended:
        is_behind = fired.found_due or not (ready.state.caught_up or walk.wrapped)
        scan = replace(scan, unfinished=scan.unfinished or is_behind)
    dripped = release(conn, ready, announced=order.announced, now=order.now)
    return _done(ready, _with_runs(ready, scan, dripped))


def _with_runs(ready: Ready, scan: Scan, references: tuple[Reference, ...]) -> Scan:
    if not references:
        return scan
    kind = ready.trigger.kind
    created = {**scan.created, kind: scan.created.get(kind, 0) + len(references)}
    return replace(scan, references=scan.references + references, created=created)
