"""What RabbitMQ has delivered and nobody has acknowledged: on it stand the consumers."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import structlog
from pika import BasicProperties, spec
from pika.channel import Channel
from pika.frame import Method

from shared.messaging.amqp_connection import BrokerConnection
from shared.messaging.messages import UnreadableMessage
from shared.observability import metrics

_log = structlog.get_logger()

Delivery = TypeVar("Delivery")


class Inbox(Generic[Delivery]):
    """Deliveries in the order in which they came.

    ``arrived`` guards ``channel`` and ``deliveries``: to be held by whoever looks at them. Those of
    a lost channel are gone from here, and come again.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        queues: Sequence[str],
        prefetch: int,
        read: Callable[[int, Channel, bytes], Delivery],
    ) -> None:
        """Begin to connect and consume, at most ``prefetch`` messages ahead of each queue.

        ``read`` makes a delivery of tag, channel and body; what raises UnreadableMessage goes to
        the dead letters.
        """
        self._queues = queues
        self._prefetch = prefetch
        self._read = read
        self.arrived = threading.Condition()
        self.channel: Channel | None = None
        self.deliveries: deque[Delivery] = deque()
        self._stopped = False
        self._connection = BrokerConnection(
            url, name=name, on_open=self._opened, on_lost=self._lost
        )
        self._connection.start()

    def ready(self) -> bool:
        """Return whether anything can arrive at this moment."""
        return self.channel is not None and not self._stopped

    def wait(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a delivery; ``arrived`` is held."""
        self.arrived.wait_for(lambda: self.deliveries or self._stopped, timeout)

    def answer(self, channel: Channel | None, answer: Callable[[Channel], None]) -> None:
        """Answer for deliveries of a channel; nothing is done if that has been lost."""
        self._connection.call(lambda present: answer(present) if present is channel else None)

    def stop(self) -> None:
        """Take nothing any more; what was not acknowledged goes back to its queue."""
        with self.arrived:
            self._stopped = True
            self.deliveries.clear()
            self.arrived.notify_all()
        self._connection.close()

    # What follows runs on the connection's thread.

    def _opened(self, channel: Channel) -> None:
        channel.add_on_cancel_callback(self._cancelled)
        channel.basic_qos(prefetch_count=self._prefetch)
        for queue in self._queues:
            channel.basic_consume(queue, self._delivered)
        with self.arrived:
            self.channel = channel

    def _delivered(
        self,
        channel: Channel,
        method: spec.Basic.Deliver,
        _properties: BasicProperties,
        body: bytes,
    ) -> None:
        try:
            delivery = self._read(method.delivery_tag, channel, body)
        except UnreadableMessage as error:
            metrics.MESSAGES_UNREADABLE.inc()
            _log.error("message_rejected", queue=method.routing_key, reason=error.message)
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        with self.arrived:
            if not self._stopped:
                self.deliveries.append(delivery)
                self.arrived.notify_all()

    def _cancelled(self, _method: Method[spec.Basic.Cancel]) -> None:
        _log.warning("queue_deleted")
        self._connection.drop()

    def _lost(self) -> None:
        with self.arrived:
            self.channel = None
            self.deliveries.clear()
