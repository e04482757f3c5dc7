"""Clicks that another tracker saw: taken in as if the link had been followed at our own address."""

import threading
from collections.abc import Callable

import psycopg
import structlog
from psycopg import Connection

from shared.db.clock import server_now
from shared.lifecycle import Stop, backoff_seconds
from shared.messaging.click_consumer import ClickConsumer, ClickDelivery
from shared.observability import metrics
from shared.tracking.click_store import ClickStore
from shared.usecases.unlock_wait import find_clicked, take_click

_log = structlog.get_logger()

_RECEIVE_SECONDS = 1.0
_PAUSE_LIMIT_SECONDS = 10.0


class ClickIntake:
    """A thread of its own with a session of its own, from message to durable click."""

    def __init__(
        self,
        open_session: Callable[[], Connection],
        *,
        consumer: ClickConsumer,
        clicks: ClickStore,
    ) -> None:
        self._open_session = open_session
        self._consumer = consumer
        self._clicks = clicks
        self._conn: Connection | None = None
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run, name="clicks", daemon=True)

    @property
    def runs(self) -> bool:
        """Whether the thread lives, or was never started."""
        return self._thread.ident is None or self._thread.is_alive()

    def start(self) -> None:
        """Begin to take clicks in."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Take nothing any more, beginning with the next click."""
        self._stop.request()

    def stop(self, *, seconds: float) -> None:
        """End it; what is not durable by then goes back to its queue."""
        self._stop.request()
        # The thread first: what it has just taken in is still acknowledged.
        if self._thread.ident is not None:
            self._thread.join(seconds)
        self._consumer.stop()

    def _run(self) -> None:
        failures = 0
        while not self._stop.requested:
            delivery = self._consumer.receive(timeout=_RECEIVE_SECONDS)
            if delivery is None:
                continue
            try:
                self._take(delivery)
                failures = 0
            except psycopg.OperationalError as error:
                failures += 1
                _log.warning("clicks_postponed", reason=type(error).__name__, failures=failures)
                self._stop.wait(backoff_seconds(failures, limit=_PAUSE_LIMIT_SECONDS))
            except Exception:
                # No message may keep the others from being taken.
                _log.exception("clicks_crashed")
                self._consumer.reject(delivery)
        if self._conn is not None:
            self._conn.close()

    def _take(self, delivery: ClickDelivery) -> None:
        """Take in what is left of a message, then acknowledge it."""
        conn = self._session()
        while delivery.clicks and not self._stop.requested:
            told = delivery.clicks[0]
            # Nobody has clicked in the future: the clock of whoever says so is ahead.
            clicked_at = min(told.clicked_at, server_now(conn))
            link = find_clicked(conn, told.token)
            if link is None:
                metrics.CLICKS_UNKNOWN.inc()
            else:
                take_click(conn, link, clicked_at=clicked_at, clicks=self._clicks)
                metrics.CLICKS.labels("tracker").inc()
            delivery.clicks.popleft()
        if not delivery.clicks:
            self._consumer.acknowledge(delivery)

    def _session(self) -> Connection:
        if self._conn is None or self._conn.closed:
            self._conn = self._open_session()
        return self._conn
