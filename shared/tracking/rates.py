"""How often something may happen: a bucket of tokens for each name, in this process.

The bucket holds ``burst`` and fills at ``per_minute``. Kept is one instant for each name, at which
its bucket would be full (the generic cell rate algorithm): exact, and as small for a busy tenant as
for a quiet one.
"""

import threading
from dataclasses import dataclass
from typing import Protocol

from shared.lifecycle import monotonic

_MAX_NAMES = 20_000
_BURSTS_PER_MINUTE = 6
_MIN_BURST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many per minute, at most ``burst`` of them at once."""

    per_minute: int
    burst: int

    @classmethod
    def of(cls, per_minute: int) -> "Rate | None":
        """Return the rate whose burst is ten seconds' worth, at least 10; None for 0: no limit."""
        if per_minute == 0:
            return None
        return cls(per_minute=per_minute, burst=max(per_minute // _BURSTS_PER_MINUTE, _MIN_BURST))

    @property
    def interval(self) -> float:
        """Seconds in which one token comes back."""
        return 60.0 / self.per_minute

    @property
    def tolerance(self) -> float:
        """Seconds that a bucket may be from full and still have a token."""
        return (self.burst - 1) * self.interval


class Rates(Protocol):
    """Buckets by name; may be used by several threads at once, and never fails."""

    def take(self, name: str, rate: Rate) -> float:
        """Take a token; return 0.0, or without one the seconds until there is one."""

    def wait(self, name: str, rate: Rate) -> float:
        """Return what ``take`` would, and take nothing."""


class LocalRates:
    """The buckets of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._full_at: dict[str, float] = {}

    def take(self, name: str, rate: Rate) -> float:
        """Take a token of this process."""
        return self.take_at(name, rate, now=monotonic())

    def wait(self, name: str, rate: Rate) -> float:
        """Look into the bucket of this process."""
        with self._lock:
            return self._look(name, rate, now=monotonic())[1]

    def take_at(self, name: str, rate: Rate, *, now: float) -> float:
        """Take a token at an instant of the monotonic clock."""
        with self._lock:
            full_at, wait = self._look(name, rate, now=now)
            if wait > 0:
                return wait
            if name not in self._full_at and len(self._full_at) >= _MAX_NAMES:
                self._forget(now)
            self._full_at[name] = full_at + rate.interval
            return 0.0

    def _look(self, name: str, rate: Rate, *, now: float) -> tuple[float, float]:
        """Return when the bucket will be full, and how long until it has a token."""
        empty = now + rate.tolerance + rate.interval
        full_at = min(max(self._full_at.get(name, now), now), empty)
        return full_at, max(full_at - now - rate.tolerance, 0.0)

    def _forget(self, now: float) -> None:
        """Drop the full buckets, which say nothing; if that is not enough, the older half."""
        kept = [(name, at) for name, at in self._full_at.items() if at > now]
        self._full_at = dict(kept[-_MAX_NAMES // 2 :])
