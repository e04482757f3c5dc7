"""The due pass over clock triggers and drips: whose look has come, each table under its lock."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from psycopg import Connection

from shared.domain.triggers import TriggerState
from shared.domain.work import Reference
from shared.lifecycle import monotonic
from shared.observability import metrics
from shared.queries.backlogs import note_helping, postpone_drips
from shared.queries.due_tables import claim_table, tables_with_look_due
from shared.queries.notifications import notify_work
from shared.queries.trigger_states import list_states, postpone_looks, set_next_due
from shared.usecases.fire_clocks import fire_clock
from shared.usecases.fire_dates import release
from shared.usecases.retrying import concerns_whole, retried
from shared.usecases.scan_table import LOCK_SECONDS
from shared.usecases.scheduled_triggers import Ready, enabled_triggers, schedule_triggers

_log = structlog.get_logger()

_AFTER_FAILURE = timedelta(seconds=60)


def fire_due_clocks(
    conn: Connection, *, limit: int, announced: bool, now: datetime
) -> tuple[int, list[Reference]]:
    """Look at up to ``limit`` clock triggers, and as many drips, a transaction for each table.

    They are those whose time has come. Return how many tables were looked at, and the runs that
    came of it. A table that a tick or a save has is left to them. Every look plans the next one.
    """
    looked_at = 0
    references: list[Reference] = []
    for table_id in tables_with_look_due(conn, now=now, limit=limit):
        fired = _fire_table(conn, table_id, announced=announced, now=now)
        looked_at += fired is not None
        references += fired or ()
    return looked_at, references


def _fire_table(
    conn: Connection, table_id: UUID, *, announced: bool, now: datetime
) -> list[Reference] | None:
    try:
        return retried(lambda: _fire_claimed(conn, table_id, announced=announced, now=now))
    except Exception as error:
        if conn.closed:
            raise
        metrics.TICK_FAILURES.labels("table").inc()
        _log.exception("table_failed", table_id=str(table_id), reason=str(error))
        if concerns_whole(conn, error):
            return None  # it passes: the next pass looks again
        postpone_looks(conn, table_id, until=now + _AFTER_FAILURE, now=now)
        postpone_drips(conn, table_id, until=now + _AFTER_FAILURE, now=now)
        return []


def _fire_claimed(
    conn: Connection, table_id: UUID, *, announced: bool, now: datetime
) -> list[Reference] | None:
    """Return the runs of the table's due triggers; None when the table was not to be had.

    What did not get its look within a second, beside large drips, still wants it.
    """
    created: list[tuple[str, Reference]] = []
    until = monotonic() + LOCK_SECONDS
    with conn.transaction():
        table = claim_table(conn, table_id)
        if table is None:
            return None
        states = list_states(conn, table_id)
        met = schedule_triggers(table, states)
        ready = {one.state.ref: one for one in enabled_triggers(met)}
        for state in states:
            if _wants_a_look(state, now=now):
                found = _look(conn, state, ready.get(state.ref), announced=announced, now=now)
                created += [(state.kind, reference) for reference in found]
                if monotonic() >= until:
                    break
        if created and not announced:
            notify_work(conn)
    for kind, _ in created:
        metrics.RUNS_CREATED.labels(kind).inc()
    return [reference for _, reference in created]


def _wants_a_look(state: TriggerState, *, now: datetime) -> bool:
    at = state.next_due_at if state.backlog is None else state.backlog.look_at
    return at is not None and at <= now


def _look(
    conn: Connection, state: TriggerState, ready: Ready | None, *, announced: bool, now: datetime
) -> Sequence[Reference]:
    """Fire what is due of a trigger; one that is off or broken wants no look until it is saved."""
    if ready is None:
        _look_again(conn, state, at=None)
        return ()
    try:
        with conn.transaction():
            if not ready.is_clock:
                return release(conn, ready, announced=announced, now=now)
            reference = fire_clock(conn, ready, announced=announced, now=now)
            return () if reference is None else (reference,)
    except Exception as error:
        if concerns_whole(conn, error):
            raise
        metrics.TICK_FAILURES.labels("trigger").inc()
        _log.exception(
            "trigger_failed",
            table_id=str(state.table_id),
            trigger_id=state.trigger_id,
            reason=str(error),
        )
        _look_again(conn, state, at=now + _AFTER_FAILURE)
        return ()


def _look_again(conn: Connection, state: TriggerState, *, at: datetime | None) -> None:
    if state.backlog is None:
        set_next_due(conn, state.ref, next_due_at=at)
    else:
        note_helping(conn, state.ref, replace(state.backlog, look_at=at))
