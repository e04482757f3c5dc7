"""Where clicks are remembered and requests are counted: in Redis if there is one.

Its client takes eight MiB, which no process is to hold that has no Redis.
"""

from shared.settings import Settings
from shared.tracking.click_store import ClickStore, PostgresClicks
from shared.tracking.rates import LocalRates, Rates


def open_clicks(settings: Settings) -> ClickStore:
    """Return the click store, PostgreSQL behind Redis or alone; nothing is connected yet."""
    if settings.redis_url is None:
        return PostgresClicks()
    from shared.tracking.redis_clicks import RedisClicks
    from shared.tracking.redis_line import open_redis

    return RedisClicks(
        open_redis(settings.redis_url.reveal()),
        PostgresClicks(),
        prefix=settings.redis_prefix,
        ttl_seconds=settings.click_ttl_seconds,
    )


def open_rates(settings: Settings) -> Rates:
    """Return the buckets that a process counts with; nothing is connected yet."""
    if settings.redis_url is None:
        return LocalRates()
    from shared.tracking.redis_line import open_redis
    from shared.tracking.redis_rates import RedisRates

    redis = open_redis(settings.redis_url.reveal())
    return RedisRates(redis, LocalRates(), prefix=settings.redis_prefix)
