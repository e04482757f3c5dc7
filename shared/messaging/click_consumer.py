"""Consuming what other trackers tell of clicks: acknowledged when every click of it is durable."""

import threading
from collections import deque
from dataclasses import dataclass

import structlog
from pika import BasicProperties, spec
from pika.channel import Channel
from pika.frame import Method

from shared.messaging import topology
from shared.messaging.amqp_connection import BrokerConnection
from shared.messaging.click_messages import ToldClick, read_clicks
from shared.messaging.messages import UnreadableMessage
from shared.observability import metrics

_log = structlog.get_logger()

_PREFETCH = 4


@dataclass(slots=True, kw_only=True, eq=False)
class ClickDelivery:
    """A message that is not acknowledged; whoever takes a click in removes it from ``clicks``."""

    tag: int
    channel: Channel
    clicks: deque[ToldClick]


class ClickConsumer:
    """Hands messages to one thread, which calls ``receive`` and then one of the two others."""

    def __init__(self, url: str) -> None:
        """Begin to connect and consume."""
        self._arrived = threading.Condition()  # guards what follows
        self._channel: Channel | None = None
        self._deliveries: deque[ClickDelivery] = deque()
        self._stopped = False
        self._connection = BrokerConnection(
            url, name="duebook-clicks", on_open=self._opened, on_lost=self._lost
        )
        self._connection.start()

    def ready(self) -> bool:
        """Return whether clicks can arrive at this moment."""
        return self._channel is not None and not self._stopped

    def receive(self, *, timeout: float) -> ClickDelivery | None:
        """Return the first message, waiting up to ``timeout`` seconds; it stays the first."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._deliveries or self._stopped, timeout)
            return self._deliveries[0] if self._deliveries else None

    def acknowledge(self, delivery: ClickDelivery) -> None:
        """Let the broker forget a message of which every click is durable."""
        self._leave(delivery)
        self._connection.call(
            lambda present: present.basic_ack(delivery.tag) if present is delivery.channel else None
        )

    def reject(self, delivery: ClickDelivery) -> None:
        """Send a message to the dead letters."""
        self._leave(delivery)
        self._connection.call(
            lambda present: (
                present.basic_reject(delivery.tag, requeue=False)
                if present is delivery.channel
                else None
            )
        )

    def stop(self) -> None:
        """Take nothing any more; what was not acknowledged goes back to its queue."""
        with self._arrived:
            self._stopped = True
            self._deliveries.clear()
            self._arrived.notify_all()
        self._connection.close()

    def _leave(self, delivery: ClickDelivery) -> None:
        with self._arrived:
            # A lost channel's deliveries are gone from here, and come again.
            if self._deliveries and self._deliveries[0] is delivery:
                self._deliveries.popleft()

    # What follows runs on the connection's thread.

    def _opened(self, channel: Channel) -> None:
        channel.add_on_cancel_callback(self._cancelled)
        channel.basic_qos(prefetch_count=_PREFETCH)
        channel.basic_consume(topology.TRACKING_CLICK, self._delivered)
        with self._arrived:
            self._channel = channel

    def _delivered(
        self,
        channel: Channel,
        method: spec.Basic.Deliver,
        _properties: BasicProperties,
        body: bytes,
    ) -> None:
        try:
            clicks = deque(read_clicks(body))
        except UnreadableMessage as error:
            metrics.MESSAGES_UNREADABLE.inc()
            _log.error("message_rejected", queue=method.routing_key, reason=error.message)
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        with self._arrived:
            if not self._stopped:
                self._deliveries.append(
                    ClickDelivery(tag=method.delivery_tag, channel=channel, clicks=clicks)
                )
                self._arrived.notify_all()

    def _cancelled(self, _method: Method[spec.Basic.Cancel]) -> None:
        _log.warning("queue_deleted")
        self._connection.drop()

    def _lost(self) -> None:
        with self._arrived:
            self._channel = None
            self._deliveries.clear()
