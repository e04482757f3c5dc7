"""How often something may happen: a bucket of tokens for each name, here or in Redis.

The bucket holds ``burst`` and fills at ``per_minute``. Kept is one instant for each name, at which
its bucket would be full (the generic cell rate algorithm): exact, and as small for a busy tenant as
for a quiet one.
"""

import threading
from dataclasses import dataclass
from typing import Protocol

from redis import Redis
from redis.commands.core import Script

from shared.lifecycle import monotonic
from shared.settings import Settings
from shared.tracking.redis_line import RedisLine, open_redis

_MAX_NAMES = 20_000
_BURSTS_PER_MINUTE = 6
_MIN_BURST = 10
_MICROSECOND = 1_000_000

# By Redis' own clock, so that replicas agree whatever theirs say. A far future, left by a clock
# that stepped back or by a rate that was lower once, is an empty bucket and no less than that.
_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local full_at = tonumber(redis.call('GET', KEYS[1])) or now
full_at = math.min(math.max(full_at, now), now + tolerance + interval)
local wait = full_at - now - tolerance
if wait > 0 then return math.ceil(wait) end
if ARGV[3] == '1' then
    full_at = full_at + interval
    local milliseconds = math.ceil((full_at - now) / 1000)
    redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', milliseconds)
end
return 0
"""


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


class RedisRates:
    """One bucket for all processes; while Redis does not answer, each process has its own."""

    def __init__(self, redis: Redis, local: LocalRates, *, prefix: str) -> None:
        """``prefix`` is that of all keys: each installation has buckets of its own."""
        self._line = RedisLine(redis)
        self._script: Script = redis.register_script(_TAKE)
        self._local = local
        self._prefix = f"{prefix}:rate:"

    def take(self, name: str, rate: Rate) -> float:
        """Take a token of all processes."""
        told = self._ask(name, rate, take=True)
        return self._local.take(name, rate) if told is None else told

    def wait(self, name: str, rate: Rate) -> float:
        """Look into the bucket of all processes."""
        told = self._ask(name, rate, take=False)
        return self._local.wait(name, rate) if told is None else told

    def _ask(self, name: str, rate: Rate, *, take: bool) -> float | None:
        interval, tolerance = (round(x * _MICROSECOND) for x in (rate.interval, rate.tolerance))
        arguments = [interval, tolerance, int(take)]
        told = self._line.ask(lambda _: self._script(keys=[self._prefix + name], args=arguments))
        return None if told is None else int(told) / _MICROSECOND


def open_rates(settings: Settings) -> Rates:
    """Return the buckets that a process counts with; nothing is connected yet."""
    if settings.redis_url is None:
        return LocalRates()
    redis = open_redis(settings.redis_url.reveal())
    return RedisRates(redis, LocalRates(), prefix=settings.redis_prefix)
