"""The tick: due triggers of the tables scanned longest ago get their runs, lost runs come back.

It inserts pending runs and waits for no action. Ticks may overlap; docs/scheduling.md tells why.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import inf
from uuid import UUID

import structlog
from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.observability import metrics
from shared.queries import approved_changes
from shared.queries.announcements import count_overdue
from shared.queries.due_tables import claim_table_to_scan, list_tables_to_scan
from shared.queries.notifications import notify_work
from shared.usecases.announce import recover
from shared.usecases.glance import pass_by
from shared.usecases.scan_table import LOCK_SECONDS, Order, Scan, Turn, scan_table

_log = structlog.get_logger()

TABLE_LIMIT = 200
RECORD_LIMIT = 1000
_OVERDUE_LIMIT = 1000

TURN_SECONDS = 5.0
"""So long a table of a round may keep the others waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """What a tick did; the first five are its answer.

    ``references`` are the runs it made, to be published if they are born announced.
    ``unfinished`` are tables in which a walk stopped at a page with due rows, or has yet to pass
    all rows, or which took too long: they want a further tick at once.
    """

    tables_scanned: int
    tables_with_schedules: int
    runs_created: int
    trigger_runs_requeued: int
    staged_changes_requeued: int
    references: tuple[Reference, ...]
    unfinished: tuple[Turn, ...]


def tick(
    conn: Connection,
    *,
    table_limit: int = TABLE_LIMIT,
    record_limit: int = RECORD_LIMIT,
    tables: Sequence[Turn] | None = None,
    announced: bool = False,
    lock_seconds: float = LOCK_SECONDS,
    turn_seconds: float = inf,
    sweep: bool = True,
    now: datetime | None = None,
) -> TickResult:
    """Scan tables, create the runs that are due at ``now`` (None: the server's), and ``sweep``.

    ``tables`` are those to scan, in this order; None: up to ``table_limit``, the ones scanned
    longest ago. A table that another tick has, or has scanned since, is passed by. ``announced``:
    runs are born announced, and the caller publishes their references. A table that takes longer
    than ``turn_seconds`` is left unfinished. What fails is logged and counted, and stops nothing
    else. No transaction may be open.
    """
    now = server_now(conn) if now is None else now
    order = Order(
        now=now,
        record_limit=record_limit,
        announced=announced,
        lock_seconds=lock_seconds,
        turn_seconds=turn_seconds,
    )
    if tables is None:
        scans = _scan_some(conn, turns(list_tables_to_scan(conn)), order, limit=table_limit)
    else:
        scans = _scan_some(conn, tables, order, limit=len(tables))
    metrics.TABLES_SCANNED.inc(len(scans))
    references = tuple(reference for _, scan in scans for reference in scan.references)
    return TickResult(
        tables_scanned=len(scans),
        tables_with_schedules=sum(scan.has_schedules for _, scan in scans),
        runs_created=len(references),
        trigger_runs_requeued=_swept_runs(conn) if sweep else 0,
        staged_changes_requeued=_swept(conn, _wake_changes) if sweep else 0,
        references=references,
        unfinished=tuple(
            _next_turn(table_id, scan, now) for table_id, scan in scans if scan.unfinished
        ),
    )


def turns(tables: Iterable[tuple[UUID, datetime]]) -> list[Turn]:
    """Return the turns of tables that are listed with the time of their last scan."""
    return [Turn(table_id, scanned_at) for table_id, scanned_at in tables]


def _next_turn(table_id: UUID, scan: Scan, now: datetime) -> Turn:
    """Return the turn that goes on where the scan was ended, or begins anew behind a whole one."""
    return Turn(table_id, now, frozenset() if scan.complete else scan.done)


def _scan_some(
    conn: Connection, tables: Sequence[Turn], order: Order, *, limit: int
) -> list[tuple[UUID, Scan]]:
    """Return the first tables that could be claimed, up to ``limit``, with what came of each.

    One that is locked does not take the place of one that can be had.
    """
    scans: list[tuple[UUID, Scan]] = []
    while tables and len(scans) < limit:
        count = min(limit - len(scans), TABLE_LIMIT)
        scans += _scan_all(conn, tables[:count], order)
        tables = tables[count:]
    return scans


def _scan_all(
    conn: Connection, tables: Sequence[Turn], order: Order
) -> Iterator[tuple[UUID, Scan]]:
    """Yield the tables that could be claimed: those that want nothing are passed by together."""
    passed_by = pass_by(conn, [(turn.table_id, turn.scanned_at) for turn in tables], order)
    for turn in tables:
        claim = partial(
            claim_table_to_scan, conn, turn.table_id, scanned_at=turn.scanned_at, now=order.now
        )
        scan = passed_by.get(turn.table_id) or scan_table(conn, turn, order, claim=claim)
        if scan is not None:
            yield turn.table_id, scan


def _swept_runs(conn: Connection) -> int:
    return _swept(conn, _take_back) + _swept(conn, _wake_overdue)


def _swept(conn: Connection, sweep: Callable[[Connection], int]) -> int:
    """Return how many rows a sweep has queued again; 0 when it fails."""
    try:
        return sweep(conn)
    except Exception as error:
        metrics.TICK_FAILURES.labels("sweep").inc()
        _log.exception("sweep_failed", sweep=sweep.__name__, reason=str(error))
        return 0


def _take_back(conn: Connection) -> int:
    """Take back what lost its worker; return how many runs wait anew."""
    return recover(conn)["trigger_run"]


def _wake_overdue(conn: Connection) -> int:
    """Have work offered again whose announcement was lost; return how much of it are runs.

    Whoever announces is told to look.
    """
    overdue = count_overdue(conn, limit=_OVERDUE_LIMIT)
    if any(overdue.values()):
        notify_work(conn)
    return overdue["trigger_run"]


def _wake_changes(conn: Connection) -> int:
    """Have approved changes offered again whose announcement was lost; return how many."""
    overdue = approved_changes.count_overdue(conn, limit=_OVERDUE_LIMIT)
    if overdue:
        notify_work(conn)
    return overdue


def round_of_ticks(
    conn: Connection,
    *,
    table_limit: int = TABLE_LIMIT,
    record_limit: int = RECORD_LIMIT,
    announced: bool = False,
) -> Iterator[TickResult]:
    """Yield the ticks of a round, each when it is done; at least one, since the first sweeps.

    A round ends when each table that was a candidate at its beginning has been claimed once (one
    that another tick has counts as done) and no walk of it waits for more. Whoever takes the ticks
    may stop before, and does when the next round is due.
    """
    waiting = turns(list_tables_to_scan(conn))
    is_first = True
    while True:
        result = tick(
            conn,
            tables=waiting[:table_limit],
            record_limit=record_limit,
            announced=announced,
            turn_seconds=TURN_SECONDS,
            sweep=is_first,
        )
        waiting, is_first = [*waiting[table_limit:], *result.unfinished], False
        yield result
        if not waiting:
            return
