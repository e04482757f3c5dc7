"""How often something may happen, counted in Redis: one bucket for all processes."""

from redis import Redis
from redis.commands.core import Script

from shared.tracking.rates import LocalRates, Rate
from shared.tracking.redis_line import RedisLine

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
