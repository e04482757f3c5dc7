"""Pure schedule arithmetic: what may be authored, when it is due, and under which identity.

No I/O and no clock: time is an argument. All instants are aware UTC.
"""

from shared.schedule.cells import fire_at, parse_cell
from shared.schedule.parse import ScheduleError, normal_form, parse_schedule
from shared.schedule.windows import anchor_for, due_window, upcoming_windows, window_key

__all__ = [
    "ScheduleError",
    "anchor_for",
    "due_window",
    "fire_at",
    "normal_form",
    "parse_cell",
    "parse_schedule",
    "upcoming_windows",
    "window_key",
]
