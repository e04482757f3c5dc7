"""What a process tells of its pool when somebody asks for its metrics: nothing in between."""

from collections.abc import Callable, Mapping
from typing import Protocol

from shared.observability import metrics


class Pool(Protocol):
    """A pool of sessions that knows its numbers."""

    def get_stats(self) -> Mapping[str, int]:
        """Return its numbers by name."""


def measure_when_asked(pool: Pool) -> None:
    """Let the gauges of this process read the pool at each scrape."""
    _tell("in_use", pool, lambda stats: stats["pool_size"] - stats["pool_available"])
    _tell("free", pool, lambda stats: stats["pool_available"])
    _tell("waiting", pool, lambda stats: stats["requests_waiting"])


def _tell(state: str, pool: Pool, of: Callable[[Mapping[str, int]], int]) -> None:
    metrics.POOL_SESSIONS.labels(state).set_function(lambda: of(pool.get_stats()))
