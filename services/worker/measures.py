"""What a worker tells of itself when somebody asks for its metrics: it costs nothing in between."""

from collections.abc import Callable
from typing import Any

from psycopg_pool import ConnectionPool

from services.worker.holdings import Holdings
from shared.observability import metrics


def measure_when_asked(pool: ConnectionPool[Any], holdings: Holdings) -> None:
    """Let the gauges of this process read pool and holdings at each scrape."""
    metrics.OLDEST_UNSTARTED_CLAIM_SECONDS.set_function(holdings.longest_unstarted)
    states: dict[str, Callable[[dict[str, int]], int]] = {
        "in_use": lambda stats: stats["pool_size"] - stats["pool_available"],
        "free": lambda stats: stats["pool_available"],
        "waiting": lambda stats: stats["requests_waiting"],
    }
    for state, of in states.items():
        metrics.POOL_SESSIONS.labels(state).set_function(_reading(pool, of))


def _reading(pool: ConnectionPool[Any], of: Callable[[dict[str, int]], int]) -> Callable[[], float]:
    return lambda: of(pool.get_stats())
