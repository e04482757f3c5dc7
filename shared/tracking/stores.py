"""Which click store a process uses: Redis before PostgreSQL if there is one, else PostgreSQL."""

from shared.settings import Settings
from shared.tracking.click_store import ClickStore, PostgresClicks
from shared.tracking.redis_clicks import RedisClicks
from shared.tracking.redis_line import open_redis


def open_clicks(settings: Settings) -> ClickStore:
    """Return the click store; nothing is connected yet."""
    if settings.redis_url is None:
        return PostgresClicks()
    return RedisClicks(
        open_redis(settings.redis_url.reveal()),
        PostgresClicks(),
        prefix=settings.redis_prefix,
        ttl_seconds=settings.click_ttl_seconds,
    )
