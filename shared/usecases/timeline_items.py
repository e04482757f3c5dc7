"""The moments of a trigger: what it consumed, with its runs, and what lies ahead of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, NamedTuple

from psycopg import Connection

from shared.domain.instants import instant_text
from shared.domain.runs import RunStatus
from shared.domain.triggers import TriggerState
from shared.queries.timeline import (
    Occurrence,
    list_consumed_windows,
    list_entries,
    list_event_runs,
    list_occurrences,
)
from shared.schedule.local_times import LocalWindow, local_windows
from shared.schedule.model import DateColumnReached, TableSchedule
from shared.schedule.windows import next_window
from shared.usecases import fire_clocks
from shared.usecases.known_triggers import KnownTrigger
from shared.usecases.preview_arms import classes_of_records
from shared.usecases.scheduled_triggers import Ready

_MINUTE = timedelta(minutes=1)
_INSTANT = timedelta(microseconds=1)


class Place(NamedTuple):
    """Where an item stands: its phase, and what orders it there."""

    phase: Literal["past", "ahead"]
    at: datetime
    number: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRun:
    """The run of an item, as it is now."""

    id: int
    status: RunStatus
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One moment of a trigger.

    ``at``, in the past: of a clock its window, of a date trigger when the value was consumed, of an
    event trigger its run; ahead: when it is due. ``run`` is None where there was none, or it was
    deleted. ``window`` is a clock's. Ahead, ``by_run`` is None, and ``verdict`` is the class in
    which the row would then be, if nothing changes (``VERDICTS``): ``due_now`` fires.
    """

    place: Place
    at: datetime
    record_id: int | None
    identity: str | None
    by_run: bool | None
    run: TimelineRun | None
    window: LocalWindow | None
    verdict: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a page is asked of; ``count`` is one item more than it has."""

    conn: Connection
    known: KnownTrigger
    from_at: datetime
    to_at: datetime
    after: Place | None
    count: int
    now: datetime

    def behind(self, phase: Literal["past", "ahead"]) -> Place | None:
        """Return the place behind which the page begins, if it is of this phase."""
        return self.after if self.after is not None and self.after.phase == phase else None


def past_items(asked: Asked) -> list[Item]:
    """Return what was consumed, or run, in the range, in the order of time."""
    state = asked.known.state
    # A trigger that has become one on an event has the ledger of its schedule no more.
    if state is None or asked.known.event is not None:
        return _runs(asked)
    if state.kind == "date_column_reached":
        return _dates(asked, state)
    return _windows(asked, state)


def _runs(asked: Asked) -> list[Item]:
    after = asked.behind("past")
    found = list_event_runs(
        asked.conn,
        asked.known.table.id,
        asked.known.trigger_id,
        from_at=asked.from_at,
        to_at=asked.to_at,
        after=0 if after is None else after.number,
        limit=asked.count,
    )
    return [
        Item(
            place=Place("past", run.created_at, run.id, ""),
            at=run.created_at,
            record_id=run.record_id,
            identity=run.identity,
            by_run=True,
            run=TimelineRun(id=run.id, status=run.status, error=run.error),
            window=None,
        )
        for run in found
    ]


def _dates(asked: Asked, state: TriggerState) -> list[Item]:
    after = asked.behind("past")
    found = list_occurrences(
        asked.conn,
        state,
        from_at=asked.from_at,
        to_at=asked.to_at,
        after=None if after is None else (after.at, after.number, after.identity),
        limit=asked.count,
    )
    return [
        Item(
            place=Place("past", one.consumed_at, one.record_id, one.identity),
            at=one.consumed_at,
            record_id=one.record_id,
            identity=one.identity,
            by_run=one.by_run,
            run=_run_of(one),
            window=None,
        )
        for one in found
    ]


def _run_of(one: Occurrence) -> TimelineRun | None:
    if one.run_id is None or one.run_status is None:
        return None
    return TimelineRun(id=one.run_id, status=one.run_status, error=one.run_error)


def _windows(asked: Asked, state: TriggerState) -> list[Item]:
    after = asked.behind("past")
    found = list_consumed_windows(
        asked.conn,
        state,
        from_at=asked.from_at,
        to_at=asked.to_at,
        after="" if after is None else after.identity,
        limit=asked.count,
    )
    return [
        Item(
            place=Place("past", datetime.fromisoformat(one.identity), 0, one.identity),
            at=datetime.fromisoformat(one.identity),
            record_id=None,
            identity=one.identity,
            by_run=one.by_run,
            run=_run_of(one),
            window=None,
        )
        for one in found
    ]


def items_ahead(asked: Asked, count: int) -> list[Item]:
    """Return the first ``count`` moments that are due in the range, in the order of time."""
    met = asked.known.met
    if not isinstance(met, Ready):
        return []
    schedule = met.trigger.schedule
    if isinstance(schedule, DateColumnReached) or schedule is None:
        return _entries(asked, met, count)
    return list(islice(_coming(asked, met, schedule), count))


def _entries(asked: Asked, ready: Ready, count: int) -> list[Item]:
    after = asked.behind("ahead")
    entries = list_entries(
        asked.conn,
        ready.state,
        from_at=asked.from_at,
        to_at=asked.to_at,
        after=None if after is None else (after.at, after.number),
        limit=count,
    )
    # An entry only points: its record may have fired, or been written, since.
    then = {entry.record_id: max(entry.fire_at, asked.now) for entry in entries}
    verdicts = classes_of_records(asked.conn, ready, then)
    return [
        Item(
            place=Place("ahead", entry.fire_at, entry.record_id, ""),
            at=entry.fire_at,
            record_id=entry.record_id,
            identity=None,
            by_run=None,
            run=None,
            window=None,
            verdict=verdicts[entry.record_id],
        )
        for entry in entries
    ]


def _coming(asked: Asked, ready: Ready, schedule: TableSchedule) -> Iterator[Item]:
    """Give the window that is due, if it is, and those that come, within the range."""
    after = asked.behind("ahead")
    since = asked.now if after is None else max(after.at, asked.now)
    if after is None:
        verdict = fire_clocks.judge(asked.conn, ready, active_run=False, now=asked.now)
        due = verdict.due_at
        if due is not None and asked.from_at <= due < asked.to_at:
            yield _window(schedule, due, since=due - _MINUTE)
    if asked.from_at > since:
        since = asked.from_at - _INSTANT
    while window := next_window(schedule, anchor=ready.state.anchor_at, after=since):
        if window >= asked.to_at:
            return
        yield _window(schedule, window, since=since)
        since = window


def _window(schedule: TableSchedule, window: datetime, *, since: datetime) -> Item:
    [local] = local_windows(schedule, [window], since=since)
    identity = instant_text(window)
    return Item(
        place=Place("ahead", window, 0, identity),
        at=window,
        record_id=None,
        identity=identity,
        by_run=None,
        run=None,
        window=local,
        verdict="due_now",
    )
