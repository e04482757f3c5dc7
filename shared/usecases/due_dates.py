"""The due pass over date values: what the due index points at is judged, and leaves or moves."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID, uuid4

import structlog
from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.work import Reference
from shared.observability import metrics
from shared.queries.custom_tables import list_tables_by_id
from shared.queries.due_values import DuePointer, take_due, take_due_fairly
from shared.queries.notifications import notify_work
from shared.queries.trigger_states import list_states_by_ref
from shared.usecases.fire_dates import Fired, fire_records, sum_fired
from shared.usecases.retrying import concerns_whole
from shared.usecases.scheduled_triggers import Ready, enabled_triggers, schedule_triggers

_log = structlog.get_logger()

# Each may be in a table of its own, whose definition takes megabytes.
_TRIGGERS_AT_ONCE = 50


def fire_due_dates(
    conn: Connection, *, fairly: bool, limit: int, announced: bool, now: datetime
) -> tuple[int, list[Reference]]:
    """Look at up to ``limit`` due entries in one transaction: the oldest, or each tenant's in turn.

    Return how many were looked at, and the runs that came of it. An entry leaves with the look,
    whatever was found (fired before, refused by ``when``, trigger off, table trashed): a write to
    the record brings it back, an edit or a restore restarts the walk. A record that lies ahead by
    now gets a new one.
    """
    with conn.transaction():
        pointers = _take(conn, fairly=fairly, limit=limit, now=now)
        by_ref = groupby(sorted(pointers), key=lambda pointer: pointer.trigger_ref)
        groups = [(ref, list(group)) for ref, group in by_ref]
        fired = sum_fired(
            _fire(conn, groups[start : start + _TRIGGERS_AT_ONCE], announced=announced, now=now)
            for start in range(0, len(groups), _TRIGGERS_AT_ONCE)
        )
        references = list(fired.references)
        if references and not announced:
            notify_work(conn)
    metrics.RUNS_CREATED.labels("date_column_reached").inc(len(references))
    return len(pointers), references


def _fire(
    conn: Connection,
    groups: Sequence[tuple[int, Sequence[DuePointer]]],
    *,
    announced: bool,
    now: datetime,
) -> Fired:
    """Look at the entries of some triggers, by ref."""
    ready = _ready_by_ref(conn, [ref for ref, _ in groups])
    total = Fired()
    for ref, looked_at in groups:
        if ref in ready:
            ids = [pointer.record_id for pointer in looked_at]
            total += fire_records(conn, ready[ref], ids, announced=announced, now=now, taken=True)
    return total


def _take(conn: Connection, *, fairly: bool, limit: int, now: datetime) -> list[DuePointer]:
    if fairly:
        return take_due_fairly(conn, now=now, limit=limit, after=uuid4())
    return take_due(conn, now=now, limit=limit)


def _ready_by_ref(conn: Connection, refs: Sequence[int]) -> dict[int, Ready]:
    """Return the triggers of these states that are to be evaluated: enabled, in a live table."""
    states = [state for state in list_states_by_ref(conn, refs) if state.retired_at is None]
    tables = _readable_tables(conn, sorted({state.table_id for state in states}))
    return {
        ready.state.ref: ready
        for table in tables
        if table.trashed_at is None
        for ready in enabled_triggers(
            schedule_triggers(table, [state for state in states if state.table_id == table.id])
        )
    }


def _readable_tables(conn: Connection, table_ids: Sequence[UUID]) -> list[CustomTable]:
    """Return these tables, without those whose definition cannot be read."""
    try:
        with conn.transaction():
            return list_tables_by_id(conn, table_ids)
    except Exception as error:
        if concerns_whole(conn, error):
            raise
        if len(table_ids) == 1:
            metrics.TICK_FAILURES.labels("table").inc()
            _log.exception("table_failed", table_id=str(table_ids[0]), reason=str(error))
            return []
    return [table for table_id in table_ids for table in _readable_tables(conn, [table_id])]
