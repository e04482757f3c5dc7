"""A worker: takes what is due, executes it, leaves receipts; ends cleanly on SIGTERM."""

import sys
from collections.abc import Callable
from importlib.metadata import version

import psycopg
import structlog
from psycopg import Connection

from services.worker.committer import Committer
from services.worker.definitions import Definitions
from services.worker.dispatch import Dispatcher
from services.worker.holdings import Holdings
from services.worker.intake import Claimer
from services.worker.lease import LeaseKeeper, LeaseLimits, Liveness
from services.worker.run_trigger import RunExecutor
from services.worker.server_time import ServerTime
from shared.actions.action import Services
from shared.actions.addresses import AddressPolicy
from shared.actions.http import HttpCaller
from shared.db.connection import connect, open_pool
from shared.errors import InvalidInput
from shared.lifecycle import Stop, backoff_seconds, stop_on_signals
from shared.messaging.transport import open_consumer
from shared.observability.http import HealthServer
from shared.observability.logs import configure_logging
from shared.settings import Settings, read_settings
from shared.usecases.announce import recover

_NAME = "duebook-worker"
# Of the grace period, what is kept for handing back and for the last commits.
_CLOSING_SECONDS = 10.0

_log = structlog.get_logger()


def main() -> int:
    """Run until SIGTERM or SIGINT; 0 after a clean end, 2 when the settings are not valid."""
    try:
        settings = read_settings("worker")
    except InvalidInput as error:
        print(error.message, file=sys.stderr)
        return 2
    configure_logging(service="worker", log_format=settings.log_format, level=settings.log_level)
    stop = stop_on_signals()

    def open_session() -> Connection:
        return connect(settings.database_url.reveal(), application_name=_NAME)

    liveness = _register(settings, open_session, stop)
    if liveness:
        with liveness:
            _Worker(settings, open_session, liveness).run(stop)
    return 0


def _register(
    settings: Settings, open_session: Callable[[], Connection], stop: Stop
) -> Liveness | None:
    """Return the worker's liveness as soon as the database is there; None when stopped before."""
    failures = 0
    while not stop.requested:
        try:
            return Liveness(
                open_session, roles=settings.worker_roles, threads=settings.worker_threads
            )
        except psycopg.Error as error:
            failures += 1
            _log.warning("database_not_reached", reason=str(error))
            stop.wait(backoff_seconds(failures, limit=5.0))
    return None


class _Worker:
    """The parts of a worker, put together once."""

    def __init__(
        self, settings: Settings, open_session: Callable[[], Connection], liveness: Liveness
    ) -> None:
        self._settings = settings
        self._liveness = liveness
        self._pool = open_pool(
            settings.database_url.reveal(), application_name=_NAME, size=settings.db_pool_size
        )
        self._http = HttpCaller(
            policy=AddressPolicy(allowed_networks=settings.allowed_networks),
            ports=settings.allowed_ports,
            user_agent=f"Duebook/{version('duebook')}",
        )
        holdings = Holdings()
        time = ServerTime(liveness.session)
        self._committer = Committer(open_session)
        self._leases = LeaseKeeper(
            open_session,
            liveness=liveness,
            holdings=holdings,
            time=time,
            limits=LeaseLimits(
                lease_seconds=settings.lease_seconds, renew_seconds=settings.renew_seconds
            ),
            sweep=recover if settings.amqp_url is None else None,
        )
        self._claimer = Claimer(
            open_session,
            worker_id=liveness.worker_id,
            holdings=holdings,
            lease_seconds=settings.lease_seconds,
        )
        self._consumer = open_consumer(settings, self._claimer)
        executor = RunExecutor(
            pool=self._pool,
            committer=self._committer,
            holdings=holdings,
            definitions=Definitions(self._pool),
            services=Services(
                http=self._http,
                gateway_url=settings.gateway_url,
                deadline_seconds=settings.action_deadline_seconds,
            ),
            time=time,
            may_begin=lambda: liveness.alive and not self._draining,
        )
        self._draining = False
        self._dispatcher = Dispatcher(
            consumer=self._consumer,
            execute=executor.execute,
            holdings=holdings,
            committer=self._committer,
            threads=settings.worker_threads,
            may_begin=lambda: liveness.alive,
        )

    def run(self, stop: Stop) -> None:
        """Work until the stop is asked for, then drain within the grace period."""
        health = HealthServer(
            host=self._settings.health_host,
            port=self._settings.health_port,
            alive=lambda: None,
            ready=lambda: self._why_not_ready(stop),
        )
        self._committer.start()
        self._leases.start()
        _log.info("worker_started", worker_id=self._liveness.worker_id)
        self._dispatcher.run(stop)
        self._draining = True
        self._drain()
        health.close()

    def _drain(self) -> None:
        self._consumer.stop()
        grace = self._settings.grace_seconds - _CLOSING_SECONDS
        ended = self._dispatcher.drain(seconds=grace)
        self._committer.close(seconds=_CLOSING_SECONDS / 2)
        self._leases.stop()
        self._claimer.close()
        self._http.close()
        self._pool.close(timeout=1.0)
        _log.info("worker_stopped", worker_id=self._liveness.worker_id, drained=ended)

    def _why_not_ready(self, stop: Stop) -> str | None:
        if stop.requested:
            return "stopping"
        if not self._liveness.alive:
            return "the liveness lock is not held"
        return None if self._consumer.ready() else "the broker is not reached"


if __name__ == "__main__":
    sys.exit(main())
