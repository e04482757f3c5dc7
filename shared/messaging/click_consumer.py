"""Consuming what other trackers tell of clicks: acknowledged when every click of it is durable."""

from collections import deque
from dataclasses import dataclass

from pika.channel import Channel

from shared.messaging import topology
from shared.messaging.amqp_inbox import Inbox
from shared.messaging.click_messages import ToldClick, read_clicks

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
        self._inbox = Inbox(
            url,
            name="duebook-clicks",
            queues=[topology.TRACKING_CLICK],
            prefetch=_PREFETCH,
            read=_read,
        )

    def ready(self) -> bool:
        """Return whether clicks can arrive at this moment."""
        return self._inbox.ready()

    def receive(self, *, timeout: float) -> ClickDelivery | None:
        """Return the first message, waiting up to ``timeout`` seconds; it stays the first."""
        with self._inbox.arrived:
            self._inbox.wait(timeout)
            return self._inbox.deliveries[0] if self._inbox.deliveries else None

    def acknowledge(self, delivery: ClickDelivery) -> None:
        """Let the broker forget a message of which every click is durable."""
        self._leave(delivery)
        self._inbox.answer(delivery.channel, lambda present: present.basic_ack(delivery.tag))

    def reject(self, delivery: ClickDelivery) -> None:
        """Send a message to the dead letters."""
        self._leave(delivery)
        self._inbox.answer(
            delivery.channel, lambda present: present.basic_reject(delivery.tag, requeue=False)
        )

    def stop(self) -> None:
        """Take nothing any more; what was not acknowledged goes back to its queue."""
        self._inbox.stop()

    def _leave(self, delivery: ClickDelivery) -> None:
        with self._inbox.arrived:
            # A lost channel's deliveries are gone from here, and come again.
            if self._inbox.deliveries and self._inbox.deliveries[0] is delivery:
                self._inbox.deliveries.popleft()


def _read(tag: int, channel: Channel, body: bytes) -> ClickDelivery:
    return ClickDelivery(tag=tag, channel=channel, clicks=deque(read_clicks(body)))
