"""Clock triggers: act on what the evaluator says of one, for tick and due pass."""

from datetime import datetime

from psycopg import Connection

from shared.domain.work import Reference
from shared.evaluator.clock_trigger import ClockVerdict, judge_clock
from shared.observability import metrics
from shared.queries.new_runs import Window, has_active_run, insert_clock_run
from shared.queries.occurrences import is_window_consumed
from shared.queries.trigger_states import consume_window, set_next_due
from shared.usecases.scheduled_triggers import Ready, freeze, note_made


def judge(conn: Connection, ready: Ready, *, active_run: bool, now: datetime) -> ClockVerdict:
    """Return what is due of the trigger, by the evaluator and the ledger."""
    ref = ready.state.ref
    return judge_clock(
        ready.trigger,
        ready.state,
        active_run=active_run,
        consumed=lambda identity: is_window_consumed(conn, trigger_ref=ref, identity=identity),
        now=now,
    )


def is_quiet(conn: Connection, ready: Ready, *, now: datetime) -> bool:
    """Tell whether ``fire_clock`` would leave everything as it is."""
    verdict = judge(conn, ready, active_run=False, now=now)
    return verdict.window is None and verdict.next_due_at == ready.state.next_due_at


def fire_clock(
    conn: Connection, ready: Ready, *, announced: bool, now: datetime
) -> Reference | None:
    """Insert the run of the trigger's due window, if there is one, and return a reference to it.

    The state moves on, also past a window that the ledger has already. The caller holds the lock
    of the table.
    """
    ref = ready.state.ref
    verdict = judge(conn, ready, active_run=False, now=now)
    reference = None
    if verdict.due_now:
        if not has_active_run(conn, ref):
            reference = _insert(conn, ready, verdict, announced=announced, now=now)
        if reference is None:
            verdict = judge(conn, ready, active_run=True, now=now)
            if verdict.due_at is not None:
                metrics.NOT_FIRED.labels("active_run").inc()
    if verdict.window is not None and (reference is not None or verdict.due_at is None):
        consume_window(conn, ref, window_at=verdict.window, next_due_at=verdict.next_due_at)
    elif verdict.next_due_at != ready.state.next_due_at:
        set_next_due(conn, ref, next_due_at=verdict.next_due_at)
    return reference


def _insert(
    conn: Connection, ready: Ready, verdict: ClockVerdict, *, announced: bool, now: datetime
) -> Reference | None:
    assert verdict.window is not None
    assert verdict.identity is not None
    assert verdict.window_key is not None
    inserted = insert_clock_run(
        conn,
        ready.state,
        Window(at=verdict.window, identity=verdict.identity, key=verdict.window_key),
        definition_hash=freeze(conn, ready),
        announced=announced,
        now=now,
    )
    if not isinstance(inserted, Reference):
        return None
    note_made(ready, [inserted])
    return inserted
