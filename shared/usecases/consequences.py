"""What a list of triggers would lead to over the whole table: counts and windows, never a row.

The scheduler's evaluator on definitions that need not be saved. Read only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from psycopg import Connection

from shared.domain.on_existing import FIRE, Backlog, OnExisting
from shared.domain.records import CustomTable
from shared.domain.runs import RunKind
from shared.domain.triggers import Trigger, TriggerState
from shared.evaluator.date_trigger import ahead_from
from shared.lifecycle import monotonic
from shared.queries.new_runs import has_active_run
from shared.schedule import upcoming_windows
from shared.schedule.model import DateColumnReached, Interval, TableSchedule
from shared.usecases import fire_clocks
from shared.usecases.align_states import is_concerned, state_after
from shared.usecases.fire_dates import judge_readable
from shared.usecases.scheduled_triggers import Ready
from shared.usecases.walk import begin_walk, next_page

COUNT_SECONDS = 20.0
"""So long rows are counted; what was not looked at by then is told by ``truncated``."""

FIRST_WINDOWS = 3

_DAY = timedelta(hours=24)
_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """What a trigger on schedule would do.

    ``fires_next_tick`` is what fires as soon as the scheduler looks, ``oldest_due_at`` the earliest
    instant that one of it was due (of a clock trigger: its window), ``fires_within_24_hours`` what
    comes after that. ``consumed`` of the overdue values, whatever ``when`` says, would enter the
    ledger without a run, ``held_back`` would wait for their turn. ``truncated``: not all rows were
    looked at, and the counts are lower bounds. ``first_windows`` are those of a clock trigger
    behind now. Of a disabled trigger nothing fires.
    """

    trigger_id: str | None
    kind: RunKind
    fires_next_tick: int = 0
    oldest_due_at: datetime | None = None
    fires_within_24_hours: int = 0
    consumed: int = 0
    held_back: int = 0
    truncated: bool = False
    first_windows: tuple[datetime, ...] = ()


def consequences_of(
    conn: Connection,
    table: CustomTable,
    triggers: Sequence[Trigger],
    states: Mapping[str, TriggerState],
    *,
    now: datetime,
    on_existing: OnExisting = FIRE,
    seconds: float = COUNT_SECONDS,
) -> list[Consequence]:
    """Return the consequences of the triggers on schedule, in this order, if saved at ``now``.

    ``states`` are those that the table has, retired ones too, by trigger id; a trigger without one
    is new. Reads the whole table, for ``seconds`` at most: give it a transaction that sees one
    moment, and no lock. What cannot be read fires nothing.
    """
    until = monotonic() + seconds
    told = []
    for trigger in triggers:
        if trigger.schedule is None:
            continue
        before = states.get(trigger.id or "")
        state = state_after(table, trigger, before, now=now)
        ready = Ready(table=table, trigger=trigger, state=state)
        if isinstance(trigger.schedule, DateColumnReached):
            chosen = on_existing if is_concerned(trigger, before) else FIRE
            told.append(_of_dates(conn, ready, chosen, now=now, until=until))
        else:
            told.append(_of_clock(conn, ready, trigger.schedule, now=now))
    return told


def _of_dates(
    conn: Connection, ready: Ready, on_existing: OnExisting, *, now: datetime, until: float
) -> Consequence:
    """Walk the whole table, whatever the cursor of the trigger says."""
    told = Consequence(trigger_id=ready.trigger.id, kind=ready.trigger.kind)
    later = now + _DAY
    bound = ahead_from(ready.trigger, now=later)
    walk = begin_walk(replace(ready.state, cursor=None))
    while not walk.ended:
        if monotonic() >= until:
            told = replace(told, truncated=True)
            break
        record_ids, walk = next_page(conn, ready, walk, limit=_PAGE, before=bound)
        told = _with_page(conn, told, ready, on_existing, record_ids, now=now)
    return _in_helpings(told, _rate(ready, on_existing), now=now)


def _with_page(
    conn: Connection,
    told: Consequence,
    ready: Ready,
    on_existing: OnExisting,
    record_ids: Sequence[int],
    *,
    now: datetime,
) -> Consequence:
    if on_existing.mode == "consume":
        overdue, _ = judge_readable(conn, _whatever_when_says(ready), record_ids, now=now)
        told = replace(told, consumed=told.consumed + overdue.due_now)
    page, _ = judge_readable(conn, ready, record_ids, now=now + _DAY)
    if ready.consumes:
        told = replace(told, consumed=told.consumed + len(page.of_backlog))
    if not ready.trigger.enabled:
        return told
    waiting = [] if ready.consumes else page.of_backlog
    overdue_at = [due.fire_at for due in (*page.due, *waiting) if due.fire_at <= now]
    held_back = len(overdue_at) if on_existing.mode == "drip" else len(waiting)
    fires = 0 if on_existing.mode == "consume" else len(overdue_at) - held_back
    return replace(
        told,
        fires_next_tick=told.fires_next_tick + fires,
        held_back=told.held_back + held_back,
        oldest_due_at=min([*overdue_at, told.oldest_due_at or now])
        if fires or held_back
        else told.oldest_due_at,
        fires_within_24_hours=told.fires_within_24_hours
        + sum(due.fire_at > now for due in page.due),
    )


def _whatever_when_says(ready: Ready) -> Ready:
    return replace(ready, trigger=replace(ready.trigger, when=()))


def _rate(ready: Ready, on_existing: OnExisting) -> Backlog | None:
    """Return the drip that the save begins, or the one that goes on behind it."""
    if on_existing.per_minute is None:
        return ready.state.backlog
    return Backlog(mode="drip", before=ready.state.anchor_at, per_minute=on_existing.per_minute)


def _in_helpings(told: Consequence, drip: Backlog | None, *, now: datetime) -> Consequence:
    """Let what is held back fire as fast as it may."""
    if drip is None or drip.per_minute is None:
        return told
    at_once = min(told.held_back, drip.room(now))
    held_back = told.held_back - at_once
    within = min(held_back, drip.per_minute * (_DAY // timedelta(minutes=1)))
    return replace(
        told,
        fires_next_tick=told.fires_next_tick + at_once,
        held_back=held_back,
        fires_within_24_hours=told.fires_within_24_hours + within,
    )


def _of_clock(
    conn: Connection, ready: Ready, schedule: TableSchedule, *, now: datetime
) -> Consequence:
    trigger, state = ready.trigger, ready.state
    told = Consequence(trigger_id=trigger.id, kind=trigger.kind)
    if not trigger.enabled:
        return told
    active_run = has_active_run(conn, state.ref)
    verdict = fire_clocks.judge(conn, ready, active_run=active_run, now=now)
    return replace(
        told,
        fires_next_tick=int(verdict.due_now),
        oldest_due_at=verdict.due_at if verdict.due_now else None,
        fires_within_24_hours=_count_within(schedule, state.anchor_at, now=now, until=now + _DAY),
        first_windows=tuple(
            upcoming_windows(schedule, anchor=state.anchor_at, after=now, count=FIRST_WINDOWS)
        ),
    )


def _count_within(
    schedule: TableSchedule, anchor: datetime, *, now: datetime, until: datetime
) -> int:
    """Return how many windows lie behind ``now``, up to ``until``."""
    if isinstance(schedule, Interval):
        step = timedelta(seconds=schedule.every_seconds)
        return (until - anchor) // step - (now - anchor) // step
    count, after = 0, now
    while windows := upcoming_windows(schedule, anchor=anchor, after=after, count=1):
        if windows[0] > until:
            break
        count, after = count + 1, windows[0]
    return count
