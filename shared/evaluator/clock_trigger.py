"""Whether a clock trigger (interval, daily, cron) is due: for tick, due pass and preview alike."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain.instants import instant_text
from shared.domain.triggers import Trigger, TriggerState
from shared.schedule import due_window, window_key
from shared.schedule.model import DateColumnReached
from shared.schedule.windows import next_window

FENCED_LOOK = timedelta(seconds=5)
"""How soon a trigger whose window waits for its active run wants another look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockVerdict:
    """What is due of a clock trigger.

    ``window`` is the latest one behind the state's last window, ``identity`` and ``window_key`` are
    its; None when there is none. ``due_at`` is the window unless the ledger has it already: then
    the state moves past it without a run. ``next_due_at`` is when the next look is worth while,
    None for never, once the verdict is acted upon.
    """

    window: datetime | None
    identity: str | None
    window_key: str | None
    due_at: datetime | None
    due_now: bool
    next_due_at: datetime | None


def judge_clock(
    trigger: Trigger,
    state: TriggerState,
    *,
    active_run: bool,
    consumed: Callable[[str], bool],
    now: datetime,
) -> ClockVerdict:
    """Return what is due: at most one window, the latest, and nothing while a run is active.

    ``consumed`` tells whether the trigger's ledger has an identity; it is asked about one at most.
    """
    schedule = trigger.schedule
    if schedule is None or isinstance(schedule, DateColumnReached):
        raise TypeError(f"{trigger.kind} is not a clock trigger")
    upcoming = next_window(schedule, anchor=state.anchor_at, after=now)
    window = due_window(
        schedule, anchor=state.anchor_at, last_consumed=state.last_window_at, now=now
    )
    if window is None:
        return ClockVerdict(
            window=None,
            identity=None,
            window_key=None,
            due_at=None,
            due_now=False,
            next_due_at=upcoming,
        )
    identity = instant_text(window)
    is_due = not consumed(identity)
    return ClockVerdict(
        window=window,
        identity=identity,
        window_key=window_key(schedule, window),
        due_at=window if is_due else None,
        due_now=is_due and not active_run,
        next_due_at=now + FENCED_LOOK if is_due and active_run else upcoming,
    )
