"""The slow, plain answer to which windows there are: look at every minute of UTC.

It shares no code with the product, nor its way of thinking: no offsets, no folds. It is right for
offsets of whole minutes, which is what every zone has had since 1972.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class MinuteWalk:
    """Each minute of a stretch of time, and what a clock on the wall shows at it."""

    minutes: tuple[tuple[datetime, datetime], ...]  # aware UTC, naive local

    @classmethod
    def around(cls, instant: datetime, zone: str, *, days: int) -> "MinuteWalk":
        start = (instant - days * DAY).replace(second=0, microsecond=0)
        instants = [start + n * MINUTE for n in range(2 * days * 24 * 60)]
        local = ZoneInfo(zone)
        return cls(tuple((at, at.astimezone(local).replace(tzinfo=None)) for at in instants))

    @property
    def start(self) -> datetime:
        return self.minutes[0][0]

    @property
    def end(self) -> datetime:
        return self.minutes[-1][0]

    def cron_windows(self, matches: Callable[[datetime], bool]) -> list[datetime]:
        """Return the first occurrence of each matching wall time."""
        seen: set[datetime] = set()
        windows = []
        for instant, wall in self.minutes:
            if wall not in seen and matches(wall):
                seen.add(wall)
                windows.append(instant)
        return windows

    def daily_windows(self, at: time) -> list[tuple[date, datetime]]:
        """Return each date's slot; a skipped wall time comes as if the clock had not been moved."""
        slots: dict[date, datetime] = {}
        for (instant, wall), (_, following) in pairwise(self.minutes):
            if wall.time() == at:
                slots.setdefault(wall.date(), instant)
            skipped = datetime.combine(wall.date(), at)
            while skipped < following:
                if skipped > wall and self._was_lived(skipped.date()):
                    slots.setdefault(skipped.date(), instant + (skipped - wall))
                skipped += DAY
        return sorted(slots.items(), key=lambda slot: slot[1])

    def _was_lived(self, day: date) -> bool:
        return any(wall.date() == day for _, wall in self.minutes)


def clock_changes(zone: str, year: int) -> list[datetime]:
    """Return the first minutes of the year at which the clock was moved."""
    local = ZoneInfo(zone)
    hours = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(366 * 24)]
    changes = []
    for hour, following in pairwise(hours):
        if hour.astimezone(local).utcoffset() != following.astimezone(local).utcoffset():
            minutes = [hour + n * MINUTE for n in range(1, 61)]
            after = following.astimezone(local).utcoffset()
            changes.append(next(m for m in minutes if m.astimezone(local).utcoffset() == after))
    return changes
