"""A worker: takes what is due, executes it, leaves receipts; ends cleanly on SIGTERM."""

import sys
from collections.abc import Callable
from importlib.metadata import version

import psycopg
import structlog
from psycopg import Connection

from services.worker.click_intake import ClickIntake
from services.worker.committer import Committer
from services.worker.definitions import Definitions
from services.worker.dispatch import Dispatcher
from services.worker.executor import Executor
from services.worker.holdings import Holdings
from services.worker.intake import Claimer
from services.worker.lease import LeaseKeeper, LeaseLimits, Liveness
from services.worker.measures import measure_when_asked
from services.worker.performer import Performer
from shared.actions.action import Services
from shared.actions.addresses import AddressPolicy
from shared.actions.http import HttpCaller
from shared.actions.registry import external_types
from shared.actions.signing_keys import SigningKeys
from shared.db.connection import connect, open_pool
from shared.db.roles import WORKER, require_role_if_reached
from shared.errors import AppError, InvalidInput
from shared.lifecycle import Stop, backoff_seconds
from shared.messaging.transport import open_click_consumer, open_consumer
from shared.observability import tracing
from shared.observability.http import HealthServer
from shared.observability.logs import configure_logging
from shared.settings import Settings, read_settings
from shared.tracking.click_store import ClickStore
from shared.tracking.stores import open_clicks
from shared.usecases.announce import recover

_NAME = "duebook-worker"
# A signal that reaches another thread does not end the main thread's wait.
_LOOK_SECONDS = 1.0
# For the liveness lock, the upkeep of leases, claims, commits, and notifications, in whose place
# other trackers' clicks have one where there is a broker.
_SESSIONS_BESIDE_POOL = 5
# Of the grace period, what is kept for the last commits, and for letting the lock go.
_CLOSING_SECONDS = 10.0
_COMMITTING_SECONDS = 5.0
_LETTING_GO_SECONDS = 2.0

_log = structlog.get_logger()


def run(stop: Stop) -> int:
    """Run until ``stop``; return 0 after a clean end, 2 when settings or login are not fit."""
    try:
        settings = read_settings("worker")
        require_role_if_reached(settings.database_url.reveal(), WORKER, application_name=_NAME)
        configure_logging(
            service="worker", log_format=settings.log_format, level=settings.log_level
        )
        tracing.start(settings, service="worker")
        process = _Process(settings, stop)
        health = HealthServer(
            host=settings.health_host,
            port=settings.health_port,
            alive=process.why_not_alive,
            ready=process.why_not_ready,
        )
    except AppError as error:
        print(error.message, file=sys.stderr)
        return 2
    fault = process.run()
    health.close()
    tracing.stop()
    if fault is not None:
        print(fault, file=sys.stderr)
    return 0 if fault is None else 2


class _Process:
    """A worker from its start on, also while it has no database yet."""

    def __init__(self, settings: Settings, stop: Stop) -> None:
        self._settings = settings
        self._stop = stop
        self._worker: _Worker | None = None

    def run(self) -> str | None:
        """Work until the stop is asked for, then drain within the grace period.

        Return what is wrong with the settings if the database does not allow them, else None.
        """
        liveness = self._register()
        if liveness is None:
            return None
        if fault := self._fault_of_pool(liveness):
            liveness.close()
            return fault
        try:
            self._worker = _Worker(self._settings, self._open_session, liveness, self._stop)
        except InvalidInput as error:  # what only the drivers of broker and Redis read
            liveness.close()
            return error.message
        self._worker.start()
        while not self._stop.wait(_LOOK_SECONDS):
            pass
        self._worker.drain()
        return None

    def why_not_alive(self) -> str | None:
        """Return what has ended although it must not, else None."""
        if self._worker is None or self._stop.requested:
            return None
        return self._worker.ended_part()

    def why_not_ready(self) -> str | None:
        """Return what the worker lacks to take work, else None."""
        if self._stop.requested:
            return "stopping"
        return "the database is not reached" if self._worker is None else self._worker.lack()

    def _fault_of_pool(self, liveness: Liveness) -> str | None:
        needed = self._settings.db_pool_size + _SESSIONS_BESIDE_POOL
        allowed = liveness.sessions_allowed
        if allowed is None or needed <= allowed:
            return None
        return (
            f"DB_POOL_SIZE: with {_SESSIONS_BESIDE_POOL} sessions beside the pool a worker has"
            f" {needed}, and the database's role may have {allowed}."
        )

    def _open_session(self) -> Connection:
        url = self._settings.database_url.reveal()
        return connect(url, application_name=_NAME, role=WORKER)

    def _register(self) -> Liveness | None:
        """Return the liveness as soon as the database is there; None when stopped before."""
        roles, threads = self._settings.worker_roles, self._settings.worker_threads
        failures = 0
        while not self._stop.requested:
            try:
                return Liveness(self._open_session, roles=roles, threads=threads)
            except psycopg.Error as error:
                failures += 1
                _log.warning("database_not_reached", reason=str(error))
                self._stop.wait(backoff_seconds(failures, limit=5.0))
        return None


class _Worker:
    """The parts of a worker, put together once."""

    def __init__(
        self,
        settings: Settings,
        open_session: Callable[[], Connection],
        liveness: Liveness,
        stop: Stop,
    ) -> None:
        self._settings = settings
        self._liveness = liveness
        self._pool = open_pool(
            settings.database_url.reveal(),
            application_name=_NAME,
            size=settings.db_pool_size,
            role=WORKER,
        )
        self._http = HttpCaller(
            policy=AddressPolicy(allowed_networks=settings.allowed_networks),
            ports=settings.allowed_ports,
            user_agent=f"Duebook/{version('duebook')}",
        )
        self._clicks = open_clicks(settings)
        holdings = Holdings()
        measure_when_asked(self._pool, holdings)
        self._committer = Committer(open_session)
        self._leases = LeaseKeeper(
            open_session,
            liveness=liveness,
            holdings=holdings,
            limits=LeaseLimits(
                lease_seconds=settings.lease_seconds, renew_seconds=settings.renew_seconds
            ),
            sweep=recover if settings.amqp_url is None else None,
        )
        sealer = settings.sealer()
        services = Services(
            http=self._http,
            gateway_url=settings.gateway_url,
            deadline_seconds=settings.action_deadline_seconds,
            clicks=self._clicks,
            public_url=settings.public_url,
            signing_keys=SigningKeys(sealer),
            sealer=sealer,
        )
        self._claimer = Claimer(
            open_session,
            worker_id=liveness.worker_id,
            holdings=holdings,
            lease_seconds=settings.lease_seconds,
            external_types=external_types(services),
        )
        self._consumer = open_consumer(settings, self._claimer)
        performer = Performer(
            pool=self._pool,
            committer=self._committer,
            services=services,
            time=liveness.time,
            may_begin=lambda: liveness.alive and not stop.requested,
            max_retries=settings.max_retries,
        )
        executor = Executor(
            performer=performer,
            committer=self._committer,
            holdings=holdings,
            definitions=Definitions(self._pool),
            clicks=self._clicks,
            time=liveness.time,
        )
        self._intake = _click_intake(settings, open_session, self._clicks)
        self._dispatcher = Dispatcher(
            consumer=self._consumer,
            execute=executor.execute,
            holdings=holdings,
            committer=self._committer,
            threads=settings.worker_threads,
            may_begin=lambda: liveness.alive,
            joins=executor.joins,
            execute_together=executor.execute_together,
        )

    def start(self) -> None:
        """Begin to work."""
        self._committer.start()
        self._leases.start()
        self._dispatcher.start()
        if self._intake:
            self._intake.start()
        _log.info("worker_started", worker_id=self._liveness.worker_id)

    def drain(self) -> None:
        """Let end what runs, hand the rest back; no longer than the grace period, come what may."""
        if self._intake:
            self._intake.ask_to_stop()
        ended = self._dispatcher.drain(seconds=self._settings.grace_seconds - _CLOSING_SECONDS)
        self._committer.close(seconds=_COMMITTING_SECONDS)
        self._leases.stop(seconds=_LETTING_GO_SECONDS)
        if self._intake:
            self._intake.stop(seconds=_LETTING_GO_SECONDS)
        if ended:
            self._claimer.close()
            self._http.close()
            self._clicks.close()
        self._pool.close(timeout=1.0)
        _log.info("worker_stopped", worker_id=self._liveness.worker_id, drained=ended)

    def ended_part(self) -> str | None:
        """Return which part has ended although nobody asked it to, None if none has."""
        parts = {
            "the committer": self._committer.runs,
            "the upkeep of leases": self._leases.runs,
            "a thread for runs": self._dispatcher.runs,
            "the intake of clicks": self._intake is None or self._intake.runs,
        }
        return next((f"{name} has ended" for name, runs in parts.items() if not runs), None)

    def lack(self) -> str | None:
        """Return what it lacks to take work, else None."""
        if not self._liveness.alive:
            return "the liveness lock is not held"
        return None if self._consumer.ready() else "the broker is not reached"


def _click_intake(
    settings: Settings, open_session: Callable[[], Connection], clicks: ClickStore
) -> ClickIntake | None:
    consumer = open_click_consumer(settings)
    if consumer is None:
        return None
    return ClickIntake(open_session, consumer=consumer, clicks=clicks)
