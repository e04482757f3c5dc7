"""Clicks remembered in Redis before the durable row: a quick yes, of which the no is nothing."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import structlog
from psycopg import Connection
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.domain.tracking import TrackingLink
from shared.lifecycle import monotonic
from shared.observability import metrics
from shared.tracking.click_store import PostgresClicks

_log = structlog.get_logger()

# A request waits no longer for Redis than it would for PostgreSQL on a bad day, and only one does:
# after a failure nobody asks for a while, then a single caller tries.
_ANSWER_SECONDS = 0.1
_PAUSE_SECONDS = 5.0
_CONNECTIONS = 64
_PREFIX = "duebook:click:"

Answer = TypeVar("Answer")


class RedisClicks:
    """Redis, and behind it the durable store: what Redis does not know, that one is asked for."""

    def __init__(self, redis: Redis, durable: PostgresClicks, *, ttl_seconds: int) -> None:
        """``ttl_seconds``: how long Redis remembers a click."""
        self._redis = redis
        self._durable = durable
        self._ttl_seconds = ttl_seconds
        self._lock = threading.Lock()  # guards what follows
        self._away = False
        self._asked_again_at = 0.0

    def mark(self, conn: Connection, link: TrackingLink, *, clicked_at: datetime) -> None:
        """Tell Redis, then write the durable row: who reads the row's no has Redis' answer too."""
        key, value = _PREFIX + link.token, clicked_at.isoformat()
        self._ask(lambda redis: redis.set(key, value, nx=True, ex=self._ttl_seconds))
        self._durable.mark(conn, link, clicked_at=clicked_at)

    def clicked_at(self, conn: Connection, link: TrackingLink) -> datetime | None:
        """Return Redis' instant if it has one, else that of the durable row.

        Whoever told Redis may have died before the row was written. What is decided upon a yes has
        the row beside it all the same, so that nobody who looks later says no.
        """
        told = _instant(self._ask(lambda redis: redis.get(_PREFIX + link.token)))
        if told is None:
            return self._durable.clicked_at(conn, link)
        self._durable.keep(conn, link, clicked_at=told)
        return told

    def close(self) -> None:
        """Let the connections go."""
        self._redis.close()
        self._durable.close()

    def _ask(self, question: Callable[[Redis], Answer]) -> Answer | None:
        """Return the answer; None without one, also when Redis is not asked for now."""
        if not self._may_ask():
            metrics.REDIS_UNANSWERED.inc()
            return None
        try:
            answer = question(self._redis)
        except (RedisError, OSError) as error:
            metrics.REDIS_UNANSWERED.inc()
            self._failed(error)
            return None
        self._answered()
        return answer

    def _may_ask(self) -> bool:
        with self._lock:
            if not self._away:
                return True
            if monotonic() < self._asked_again_at:
                return False
            # This caller tries, for all others the pause goes on.
            self._asked_again_at = monotonic() + _PAUSE_SECONDS
            return True

    def _failed(self, error: Exception) -> None:
        with self._lock:
            is_new, self._away = not self._away, True
            self._asked_again_at = monotonic() + _PAUSE_SECONDS
        metrics.REDIS_AWAY.set(1)
        if is_new:
            # By its kind alone: the text may hold the URL with its password.
            _log.warning("redis_lost", reason=type(error).__name__)

    def _answered(self) -> None:
        if not self._away:
            return
        with self._lock:
            was_away, self._away = self._away, False
        metrics.REDIS_AWAY.set(0)
        if was_away:
            _log.info("redis_regained")


def open_redis(url: str) -> Redis:
    """Return a client with short limits and without retries; it connects when it is first used."""
    return Redis.from_url(
        url,
        socket_connect_timeout=_ANSWER_SECONDS,
        socket_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        max_connections=_CONNECTIONS,
        protocol=2,
        driver_info=None,
        decode_responses=False,
    )


def find_fault(url: str) -> str | None:
    """Ask Redis once; return None when it answers, else what happened, without the URL."""
    redis = open_redis(url)
    try:
        redis.ping()
    except (RedisError, OSError) as error:
        return type(error).__name__
    finally:
        redis.close()
    return None


def _instant(value: object) -> datetime | None:
    """Read what a key holds; what is no instant of ours proves nothing."""
    if not isinstance(value, bytes):
        return None
    try:
        told = datetime.fromisoformat(value.decode("ascii"))
    except ValueError:
        return None
    return None if told.tzinfo is None else told
