"""What people are told of windows: the local wall time, its offset, and the odd hours of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from shared.schedule.model import Cron, Daily, Interval, TableSchedule
from shared.schedule.windows import skipped_before, window_key
from shared.schedule.zones import is_repeated, wall_of

Note = Literal["offset_changes", "skipped_wall_time", "repeated_wall_time", "window_skipped"]
"""What is odd about a window.

- ``offset_changes``: the clock was moved since the window before.
- ``skipped_wall_time``: of daily; its wall time did not exist, and was read with the offset before.
- ``repeated_wall_time``: its wall time comes twice; this is the first.
- ``window_skipped``: of cron; a match between the window before and this one did not exist.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWindow:
    """A window ``at``, and how the clocks of its zone show it: ``2026-03-08T03:30:00``, ``-04:00``.

    ``key`` is its window key.
    """

    at: datetime
    key: str
    local: str
    offset: str
    notes: tuple[Note, ...]


def local_windows(
    schedule: TableSchedule, windows: Iterable[datetime], *, since: datetime
) -> list[LocalWindow]:
    """Return windows that follow each other as people are told of them; ``since`` is before all."""
    told = []
    for window in windows:
        told.append(_local(schedule, window, since=since))
        since = window
    return told


def _local(schedule: TableSchedule, window: datetime, *, since: datetime) -> LocalWindow:
    zone = UTC if isinstance(schedule, Interval) else schedule.zone
    wall = window.astimezone(zone)
    return LocalWindow(
        at=window,
        key=window_key(schedule, window),
        local=wall.replace(tzinfo=None).isoformat(timespec="seconds"),
        offset=wall.isoformat()[len(wall.replace(tzinfo=None).isoformat()) :],
        notes=tuple(_notes(schedule, window, wall, since=since)),
    )


def _notes(
    schedule: TableSchedule, window: datetime, wall: datetime, *, since: datetime
) -> list[Note]:
    notes: list[Note] = []
    before = None if wall.tzinfo is None else wall_of(since, wall.tzinfo)
    if before is not None and before.utcoffset() != wall.utcoffset():
        notes.append("offset_changes")
    match schedule:
        case Daily() if wall.time() != schedule.at:
            notes.append("skipped_wall_time")
        case Cron() if skipped_before(schedule, window, since=since):
            notes.append("window_skipped")
        case _:
            pass
    if is_repeated(wall):
        notes.append("repeated_wall_time")
    return notes
