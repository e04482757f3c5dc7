"""What a save does with values that are overdue already: fire them, consume them, let them drip."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from shared.errors import Fault, InvalidInput

Mode = Literal["fire", "consume", "drip"]
MODES: tuple[Mode, ...] = get_args(Mode)

MAX_PER_MINUTE = 100_000

HELPING = timedelta(minutes=1)
"""Behind the last run of a helping nothing of the drip fires for so long, then the next begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnExisting:
    """The choice of a save; ``per_minute`` belongs to ``drip`` and is None otherwise.

    It concerns the date triggers that the save makes, revives, or gives another column or offset.
    """

    mode: Mode = "fire"
    per_minute: int | None = None


FIRE = OnExisting()


def read_on_existing(mode: Mode, per_minute: int | None) -> OnExisting:
    """Return the choice that a caller names; raises InvalidInput, pointer ``/per_minute``."""
    if (per_minute is None) == (mode == "drip"):
        message = (
            f"per_minute is for on_existing drip, from 1 to {MAX_PER_MINUTE}, and needed there"
        )
        fault = Fault(code="per_minute_invalid", pointer="/per_minute", message=message)
        raise InvalidInput.of([fault])
    return OnExisting(mode=mode, per_minute=per_minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The values of a date trigger that were due at ``before``, the save, and not written since.

    Of a drip: ``fired`` have fired in the latest helping, the last of them at ``fired_at``;
    ``look_at`` is when the due pass is to look, None while it knows of none that waits.
    """

    mode: Literal["consume", "drip"]
    before: datetime
    per_minute: int | None = None
    fired_at: datetime | None = None
    fired: int = 0
    look_at: datetime | None = None

    def room(self, now: datetime) -> int:
        """Return how many may fire at ``now``, so that no minute has more than ``per_minute``."""
        return max((self.per_minute or 0) - self._fired_in_helping(now), 0)

    def after(self, fired: int, *, now: datetime, waiting: bool) -> "Backlog":
        """Return the backlog when so many have fired at ``now``; ``waiting``: some may be left."""
        last = self.fired_at
        if fired:
            last = now if last is None else max(last, now)
        after = replace(
            self, fired_at=last, fired=self._fired_in_helping(now) + fired, look_at=None
        )
        if not waiting:
            return after
        return replace(after, look_at=now if last is None or after.room(now) else last + HELPING)

    def _fired_in_helping(self, now: datetime) -> int:
        is_over = self.fired_at is None or now >= self.fired_at + HELPING
        return 0 if is_over else self.fired
