"""Clicks remembered in Redis before the durable row: a quick yes, of which the no is nothing."""

from datetime import datetime

from psycopg import Connection
from redis import Redis

from shared.domain.tracking import TrackingLink
from shared.tracking.click_store import PostgresClicks
from shared.tracking.redis_line import RedisLine


class RedisClicks:
    """Redis, and behind it the durable store: what Redis does not know, that one is asked for."""

    def __init__(
        self, redis: Redis, durable: PostgresClicks, *, prefix: str, ttl_seconds: int
    ) -> None:
        """``prefix`` is that of all keys; ``ttl_seconds``: how long Redis remembers a click."""
        self._line = RedisLine(redis)
        self._durable = durable
        self._prefix = f"{prefix}:click:"
        self._ttl_seconds = ttl_seconds

    def mark(self, conn: Connection, link: TrackingLink, *, clicked_at: datetime) -> None:
        """Tell Redis, then write the durable row: who reads the row's no has Redis' answer too."""
        key, value = self._prefix + link.token, clicked_at.isoformat()
        self._line.ask(lambda redis: redis.set(key, value, nx=True, ex=self._ttl_seconds))
        self._durable.mark(conn, link, clicked_at=clicked_at)

    def clicked_at(self, conn: Connection, link: TrackingLink) -> datetime | None:
        """Return Redis' instant if it has one, else that of the durable row.

        Whoever told Redis may have died before the row was written. What is decided upon a yes has
        the row beside it all the same, so that nobody who looks later says no.
        """
        told = _instant(self._line.ask(lambda redis: redis.get(self._prefix + link.token)))
        if told is None:
            return self._durable.clicked_at(conn, link)
        self._durable.keep(conn, link, clicked_at=told)
        return told

    def close(self) -> None:
        """Let the connections go."""
        self._line.close()
        self._durable.close()


def _instant(value: object) -> datetime | None:
    """Read what a key holds; what is no instant of ours proves nothing."""
    if not isinstance(value, bytes):
        return None
    try:
        told = datetime.fromisoformat(value.decode("ascii"))
    except ValueError:
        return None
    return None if told.tzinfo is None else told
