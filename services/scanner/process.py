"""A scanner: rounds of ticks, announcements, sweeps, retention; ends cleanly on SIGTERM."""

import sys
import threading

import structlog
from psycopg import Connection

from services.scanner.loop import Loop
from services.scanner.steps import Scanner
from shared.db.connection import connect
from shared.db.listener import Listener
from shared.db.roles import SCANNER, require_role_if_reached
from shared.errors import AppError
from shared.lifecycle import Stop
from shared.messaging.ports import Publisher
from shared.messaging.transport import open_publisher
from shared.observability import tracing
from shared.observability.http import HealthServer
from shared.observability.logs import configure_logging
from shared.queries.notifications import listen_for_due, listen_for_work
from shared.settings import Settings, read_settings
from shared.usecases.announce import Announcer

_NAME = "duebook-scanner"
# A signal that reaches another thread does not end the main thread's wait.
_LOOK_SECONDS = 1.0
# Of the grace period, what is kept for closing the broker's connection.
_CLOSING_SECONDS = 8.0

_log = structlog.get_logger()


def run(stop: Stop) -> int:
    """Run until ``stop``; return 0 after a clean end, 2 when settings or login are not fit."""
    try:
        settings = read_settings("scanner")
        require_role_if_reached(settings.database_url.reveal(), SCANNER, application_name=_NAME)
        configure_logging(
            service="scanner", log_format=settings.log_format, level=settings.log_level
        )
        tracing.start(settings, service="scanner")
        publisher = open_publisher(settings)
        loop = _loop(settings, publisher)
        health = HealthServer(
            host=settings.health_host,
            port=settings.health_port,
            alive=loop.silence,
            ready=lambda: "stopping" if stop.requested else _fault(loop, publisher),
        )
    except AppError as error:
        print(error.message, file=sys.stderr)
        return 2
    _log.info("scanner_started", broker=publisher is not None)
    ended = _run_loop(loop, stop, grace_seconds=settings.grace_seconds - _CLOSING_SECONDS)
    if publisher:
        publisher.close()
    health.close()
    tracing.stop()
    _log.info("scanner_stopped", drained=ended)
    return 0


def _run_loop(loop: Loop, stop: Stop, *, grace_seconds: float) -> bool:
    """Run the loop until the stop; True when its last step ended within the grace period.

    On a daemon thread: a database that does not answer keeps no process from ending.
    """
    thread = threading.Thread(target=loop.run, args=[stop], name="loop", daemon=True)
    thread.start()
    while not stop.wait(_LOOK_SECONDS):
        pass
    thread.join(grace_seconds)
    return not thread.is_alive()


def _loop(settings: Settings, publisher: Publisher | None) -> Loop:
    url = settings.database_url.reveal()

    def listening_session() -> Connection:
        conn = connect(url, application_name=f"{_NAME}-listener", role=SCANNER)
        listen_for_due(conn)
        if publisher:
            listen_for_work(conn)
        return conn

    scanner = Scanner(
        _announcer(settings, publisher),
        round_seconds=settings.round_seconds,
        run_retention_days=settings.run_retention_days,
    )
    return Loop(
        scanner.parts(),
        connect=lambda: connect(url, application_name=_NAME, role=SCANNER),
        waiter=Listener(listening_session),
    )


def _announcer(settings: Settings, publisher: Publisher | None) -> Announcer | None:
    if publisher is None:
        return None
    return Announcer(
        publisher,
        batch_size=settings.batch_size,
        fire_batch=settings.fire_batch,
        high_water=settings.high_water,
    )


def _fault(loop: Loop, publisher: Publisher | None) -> str | None:
    if publisher and not publisher.ready():
        return loop.fault() or "the broker is away"
    return loop.fault()
