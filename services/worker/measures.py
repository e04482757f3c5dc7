"""What a worker tells of itself when somebody asks for its metrics: it costs nothing in between."""

from services.worker.holdings import Holdings
from shared.observability import metrics, pool_sessions


def measure_when_asked(pool: pool_sessions.Pool, holdings: Holdings) -> None:
    """Let the gauges of this process read pool and holdings at each scrape."""
    pool_sessions.measure_when_asked(pool)
    metrics.OLDEST_UNSTARTED_CLAIM_SECONDS.set_function(holdings.longest_unstarted)
