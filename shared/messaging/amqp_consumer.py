"""Consuming from RabbitMQ: deliveries are joined into one claim and acknowledged after its commit.

From then on the lease is the recovery: no delivery stays open while work goes on.
"""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from pika import BasicProperties, spec
from pika.channel import Channel
from pika.frame import Method

from shared.domain.work import Claimed, Reference, WorkKind
from shared.messaging.amqp_connection import BrokerConnection
from shared.messaging.messages import UnreadableMessage, read_batch
from shared.messaging.ports import Claimer
from shared.observability import metrics

_log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class _Delivery:
    """A message that is not acknowledged; ``references`` are those not yet offered to a claim."""

    tag: int
    kind: WorkKind
    references: list[Reference]


class AmqpConsumer:
    """A worker's consumer; ``receive`` is called by one thread."""

    def __init__(
        self, url: str, *, queues: Sequence[str], threads: int, fire_batch: int, claimer: Claimer
    ) -> None:
        """Begin to connect and consume.

        As many messages are taken ahead as ``threads`` need when each has ``fire_batch``
        references.
        """
        self._queues = queues
        self._prefetch = max(1, -(-threads // fire_batch))
        self._claimer = claimer
        self._arrived = threading.Condition()  # guards what follows
        self._channel: Channel | None = None
        self._deliveries: deque[_Delivery] = deque()
        self._stopped = False
        self._connection = BrokerConnection(
            url, name="duebook-consumer", on_open=self._opened, on_lost=self._lost
        )
        self._connection.start()

    def ready(self) -> bool:
        """Return whether work can arrive at this moment."""
        return self._channel is not None and not self._stopped

    def receive(self, *, free: int, timeout: float) -> Sequence[Claimed]:
        """Return claimed work, at most twice ``free``, waiting up to ``timeout`` seconds.

        When the claim raises, the deliveries stay and are offered to the next one.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: self._deliveries or self._stopped, timeout)
            channel, (kind, references) = self._channel, self._first(2 * free)
        if kind is None:
            return []
        claimed = self._claimer.claim(kind, references)
        metrics.CLAIMS_REFUSED.inc(len(references) - len(claimed))
        self._acknowledge(channel, len(references))
        return claimed

    def stop(self) -> None:
        """Take nothing any more; what was not claimed goes back to its queue."""
        with self._arrived:
            self._stopped = True
            self._deliveries.clear()
            self._arrived.notify_all()
        self._connection.close()

    def _first(self, limit: int) -> tuple[WorkKind | None, list[Reference]]:
        """Return the first references, up to where those of another kind begin; the kind if any."""
        kind = self._deliveries[0].kind if self._deliveries else None
        references: list[Reference] = []
        for delivery in self._deliveries:
            if delivery.kind != kind or len(references) == limit:
                break
            references += delivery.references[: limit - len(references)]
        return kind, references

    def _acknowledge(self, channel: Channel | None, offered: int) -> None:
        """Acknowledge, together, the deliveries of which every reference has been offered."""
        last_tag = None
        with self._arrived:
            # A lost channel's deliveries come again: then these references are refused.
            while offered and self._deliveries and channel is self._channel:
                first = self._deliveries[0]
                now_offered = min(offered, len(first.references))
                del first.references[:now_offered]
                offered -= now_offered
                if not first.references:
                    last_tag = self._deliveries.popleft().tag
        if last_tag is not None:
            tag = last_tag
            self._connection.call(
                # Every earlier delivery has been acknowledged, rejected, or is in this group.
                lambda present: (
                    present.basic_ack(tag, multiple=True) if present is channel else None
                )
            )

    # What follows runs on the connection's thread.

    def _opened(self, channel: Channel) -> None:
        channel.add_on_cancel_callback(self._cancelled)
        channel.basic_qos(prefetch_count=self._prefetch)
        for queue in self._queues:
            channel.basic_consume(queue, self._delivered)
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
            batch = read_batch(body)
        except UnreadableMessage as error:
            metrics.MESSAGES_UNREADABLE.inc()
            _log.error("message_rejected", queue=method.routing_key, reason=error.message)
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        with self._arrived:
            if not self._stopped:
                self._deliveries.append(
                    _Delivery(
                        tag=method.delivery_tag, kind=batch.kind, references=list(batch.items)
                    )
                )
                self._arrived.notify_all()

    def _cancelled(self, _method: Method[spec.Basic.Cancel]) -> None:
        _log.warning("queue_deleted")
        self._connection.drop()

    def _lost(self) -> None:
        with self._arrived:
            self._channel = None
            self._deliveries.clear()
