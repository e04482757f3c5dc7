"""Asking Redis, which may be away: short limits, and a pause after each failure."""

import threading
from collections.abc import Callable
from typing import TypeVar

import structlog
from redis import ConnectionPool, Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.errors import InvalidInput
from shared.lifecycle import monotonic
from shared.observability import metrics

_log = structlog.get_logger()

# A request waits no longer for Redis than it would for PostgreSQL on a bad day, and only one does:
# after a failure nobody asks for a while, then a single caller tries.
_ANSWER_SECONDS = 0.1
_PAUSE_SECONDS = 5.0
_CONNECTIONS = 64

Answer = TypeVar("Answer")


class RedisLine:
    """Redis as it is asked by the threads of a process: it answers at once or not at all."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._lock = threading.Lock()  # guards what follows
        self._away = False
        self._asked_again_at = 0.0

    def ask(self, question: Callable[[Redis], Answer]) -> Answer | None:
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

    def close(self) -> None:
        """Let the connections go."""
        self._redis.close()

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
    """Return a client with short limits and without retries; it connects when it is first used.

    Raises InvalidInput ``settings_invalid`` for parameters that the driver does not know.
    """
    try:
        ConnectionPool.from_url(url).make_connection()  # which connects to nobody
    except (ValueError, TypeError, RedisError) as error:
        message = "settings are not valid:\n  REDIS_URL: Must have the parameters of its driver."
        raise InvalidInput(message, code="settings_invalid") from error
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
