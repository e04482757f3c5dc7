"""Consuming from RabbitMQ: deliveries are joined into one claim and acknowledged after its commit.

From then on the lease is the recovery: no delivery stays open while work goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pika.channel import Channel

from shared.domain.work import Claimed, Reference, ReferenceKind
from shared.messaging.amqp_inbox import Inbox
from shared.messaging.messages import read_batch
from shared.messaging.ports import Claimer
from shared.observability import metrics


@dataclass(slots=True, kw_only=True)
class _Delivery:
    """A message that is not acknowledged; ``references`` are those not yet offered to a claim."""

    tag: int
    kind: ReferenceKind
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
        self._claimer = claimer
        self._inbox = Inbox(
            url,
            name="duebook-consumer",
            queues=queues,
            prefetch=max(1, -(-threads // fire_batch)),
            read=_read,
        )

    def ready(self) -> bool:
        """Return whether work can arrive at this moment."""
        return self._inbox.ready()

    def receive(self, *, free: int, timeout: float) -> Sequence[Claimed]:
        """Return claimed work, at most twice ``free``, waiting up to ``timeout`` seconds.

        When the claim raises, the deliveries stay and are offered to the next one.
        """
        with self._inbox.arrived:
            self._inbox.wait(timeout)
            channel, (kind, references) = self._inbox.channel, self._first(2 * free)
        if kind is None:
            return []
        claimed = self._claimer.claim(kind, references)
        metrics.CLAIMS_REFUSED.inc(len(references) - len(claimed))
        self._acknowledge(channel, len(references))
        return claimed

    def stop(self) -> None:
        """Take nothing any more; what was not claimed goes back to its queue."""
        self._inbox.stop()

    def _first(self, limit: int) -> tuple[ReferenceKind | None, list[Reference]]:
        """Return the first references, up to where those of another kind begin; the kind if any."""
        deliveries = self._inbox.deliveries
        kind = deliveries[0].kind if deliveries else None
        references: list[Reference] = []
        for delivery in deliveries:
            if delivery.kind != kind or len(references) == limit:
                break
            references += delivery.references[: limit - len(references)]
        return kind, references

    def _acknowledge(self, channel: Channel | None, offered: int) -> None:
        """Acknowledge, together, the deliveries of which every reference has been offered."""
        last_tag = None
        with self._inbox.arrived:
            deliveries = self._inbox.deliveries
            # A lost channel's deliveries come again: then these references are refused.
            while offered and deliveries and channel is self._inbox.channel:
                first = deliveries[0]
                now_offered = min(offered, len(first.references))
                del first.references[:now_offered]
                offered -= now_offered
                if not first.references:
                    last_tag = deliveries.popleft().tag
        if last_tag is not None:
            tag = last_tag
            # Every earlier delivery has been acknowledged, rejected, or is in this group.
            self._inbox.answer(channel, lambda present: present.basic_ack(tag, multiple=True))


def _read(tag: int, _channel: Channel, body: bytes) -> _Delivery:
    batch = read_batch(body)
    return _Delivery(tag=tag, kind=batch.kind, references=list(batch.items))
