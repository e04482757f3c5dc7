"""Triggers that keep failing or fall silent: counted for the alarms, and named once in the log."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from psycopg import Connection

from shared.domain.triggers import TriggerState
from shared.observability import metrics
from shared.queries.trigger_alarms import list_failing_triggers
from shared.queries.trigger_states import list_late_states
from shared.schedule import ScheduleError, parse_schedule
from shared.schedule.model import DateColumnReached
from shared.schedule.windows import next_window

STREAK = 5
_FAILED_WITHIN = timedelta(days=2)
_COUNTED_AT_MOST = 1000
# Shorter than the shortest two periods; a look that is wanted so soon is no sign of a far window.
_LATE = timedelta(minutes=2)
_LOOK_WITHIN = timedelta(minutes=2)
# How late a run may be made and still not be missed.
_GRACE = timedelta(minutes=1)

_Named = set[tuple[UUID, str]]
_log = structlog.get_logger()


class TriggerWatch:
    """Sets the two gauges; remembers whom it has named. Used by one thread."""

    def __init__(self) -> None:
        self._failing: _Named = set()
        self._silent: _Named = set()

    def look(self, conn: Connection, *, now: datetime) -> None:
        """Count the triggers that fail and those that are silent; log those that are new."""
        since = now - _FAILED_WITHIN
        failing = list_failing_triggers(conn, streak=STREAK, since=since, limit=_COUNTED_AT_MOST)
        for trigger in failing:
            if (trigger.table_id, trigger.trigger_id) not in self._failing:
                _log.warning("trigger_keeps_failing", **_ids(trigger.table_id, trigger.trigger_id))
        self._failing = {(trigger.table_id, trigger.trigger_id) for trigger in failing}
        metrics.FAILING_TRIGGERS.set(len(self._failing))
        silent = list(_silent(conn, now=now))
        for state in silent:
            if (state.table_id, state.trigger_id) not in self._silent:
                _log.warning("schedule_silent", **_ids(state.table_id, state.trigger_id))
        self._silent = {(state.table_id, state.trigger_id) for state in silent}
        metrics.SILENT_SCHEDULES.set(len(self._silent))


def _silent(conn: Connection, *, now: datetime) -> Iterator[TriggerState]:
    late = list_late_states(
        conn, look_before=now + _LOOK_WITHIN, window_before=now - _LATE, limit=_COUNTED_AT_MOST
    )
    for state in late:
        second = _second_window(state)
        if second is not None and second < now - _GRACE:
            yield state


def _second_window(state: TriggerState) -> datetime | None:
    """Return the second window behind the last one that was consumed; None if there is none."""
    try:
        schedule = parse_schedule(state.schedule)
    except ScheduleError:  # of another release; the tick tells of it
        return None
    if isinstance(schedule, DateColumnReached):
        return None
    at: datetime | None = state.last_window_at or state.anchor_at
    for _ in range(2):
        if at is not None:
            at = next_window(schedule, anchor=state.anchor_at, after=at)
    return at


def _ids(table_id: UUID, trigger_id: str) -> dict[str, str]:
    return {"table_id": str(table_id), "trigger_id": trigger_id}
