"""A connection to the broker on a thread of its own, opened again whenever it is lost.

Nothing but this thread touches the connection, and nobody else's work ever runs on it.
"""

import threading
from collections.abc import Callable

import structlog
from pika import SelectConnection, URLParameters
from pika.adapters.select_connection import IOLoop
from pika.channel import Channel
from pika.connection import Connection
from pika.exceptions import ChannelClosedByBroker

from shared.errors import InvalidInput
from shared.lifecycle import backoff_seconds
from shared.messaging import topology

_log = structlog.get_logger()

# A peer that went silent is noticed within twice this.
_HEARTBEAT_SECONDS = 20
_PAUSE_LIMIT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_NOT_FOUND = 404


class BrokerConnection:
    """One connection with one channel, on which every queue has been declared.

    ``on_open`` and ``on_lost`` run on the connection's thread: the first with the channel when it
    can be used, the second after each connection that came so far.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        on_open: Callable[[Channel], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._parameters = _parameters(url, name)
        self._on_open = on_open
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._loop: IOLoop | None = None
        self._connection: SelectConnection | None = None
        self._channel: Channel | None = None
        self._usable = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to connect; it goes on for as long as it takes."""
        self._thread.start()

    def call(self, task: Callable[[Channel], None]) -> bool:
        """Have ``task`` run on the connection's thread; False when there is no usable channel.

        True is no promise: should the connection be lost first, ``on_lost`` runs instead.
        """
        with self._lock:
            channel, loop = self._channel, self._loop
            if channel is None or loop is None:
                return False
            loop.add_callback_threadsafe(lambda: task(channel) if channel.is_open else None)
            return True

    def drop(self) -> None:
        """Give this connection up; another is opened after the usual pause."""
        with self._lock:
            self._channel = None
            if self._loop is not None:
                self._loop.add_callback_threadsafe(self._close_connection)

    def close(self) -> None:
        """End it for good, after what was asked for by ``call``."""
        self._ending.set()
        self.drop()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            try:
                self._serve()
            except Exception:
                _log.exception("broker_connection_failed")
            if self._usable:
                failures = 0
                self._usable = False
                self._on_lost()
            failures += 1
            self._ending.wait(backoff_seconds(failures, limit=_PAUSE_LIMIT_SECONDS))

    def _serve(self) -> None:
        """Open a connection and stay with it until it is closed, by whichever side."""
        connection = SelectConnection(
            self._parameters,
            on_open_callback=self._opened,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        with self._lock:
            self._loop, self._connection = connection.ioloop, connection
        if self._ending.is_set():  # close() came too early to find this connection
            self.drop()
        try:
            connection.ioloop.start()
        finally:
            with self._lock:
                self._loop = self._connection = self._channel = None
            connection.ioloop.close()

    def _opened(self, connection: Connection) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._channel_closed)
        topology.declare(channel, then=lambda _: self._declared(channel))

    def _declared(self, channel: Channel) -> None:
        if not self._usable:
            with self._lock:
                self._channel, self._usable = channel, True
            _log.info("broker_connected", connection=self._thread.name)
            self._on_open(channel)

    def _channel_closed(self, _channel: Channel, error: Exception) -> None:
        with self._lock:
            self._channel = None
        if isinstance(error, ChannelClosedByBroker) and error.reply_code == _NOT_FOUND:
            _log.warning("queue_deleted")
        elif isinstance(error, ChannelClosedByBroker):
            _log.error("broker_channel_refused", reason=str(error))
        self._close_connection()

    def _close_connection(self) -> None:
        connection = self._connection
        if connection is not None and not (connection.is_closing or connection.is_closed):
            connection.close()

    def _closed(self, connection: Connection, error: BaseException) -> None:
        if not self._ending.is_set():
            _log.warning("broker_lost", connection=self._thread.name, reason=repr(error))
        connection.ioloop.stop()


def read_url(url: str) -> URLParameters:
    """Return what a URL says; raises InvalidInput ``settings_invalid`` where the driver does."""
    try:
        return URLParameters(url)
    except (ValueError, TypeError, SyntaxError) as error:
        message = "settings are not valid:\n  AMQP_URL: Must have the parameters of its driver."
        raise InvalidInput(message, code="settings_invalid") from error


def _parameters(url: str, name: str) -> URLParameters:
    parameters = read_url(url)
    if parameters.heartbeat is None:
        parameters.heartbeat = _HEARTBEAT_SECONDS
    parameters.client_properties = {"connection_name": name}
    return parameters
