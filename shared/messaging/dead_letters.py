"""Dead letters: to count them, look into them, and send them again. For a person, by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pika import BasicProperties, BlockingConnection, DeliveryMode
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, NackError, UnroutableError

from shared.errors import Unavailable
from shared.messaging import topology
from shared.messaging.amqp_connection import read_url
from shared.messaging.click_messages import read_clicks
from shared.messaging.messages import UnreadableMessage, read_batch

_BODY_SHOWN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that no worker could take.

    ``queue`` is where it was sent to; ``reason`` is the broker's: ``rejected`` (nobody could read
    it) or ``delivery_limit``. ``fault`` says why it cannot be read, None if it can. ``body`` is cut
    at 1000 characters, and what is no UTF-8 in it is replaced.
    """

    queue: str
    reason: str
    died_at: datetime | None
    fault: str | None
    body: str


def count_dead_letters(url: str) -> dict[str, int]:
    """Return by queue how many dead letters it has. Raises Unavailable."""
    with _channel(url) as channel:
        depths = topology.declare_blocking(channel)
    return {queue: depths[topology.dead_letters_of(queue)] for queue in topology.CONSUMED_QUEUES}


def list_dead_letters(url: str, queue: str, *, limit: int) -> list[DeadLetter]:
    """Return the oldest dead letters of a queue; they stay where they are.

    Raises Unavailable.
    """
    with _channel(url) as channel:
        topology.declare_blocking(channel)
        letters = []
        for _tag, properties, body in _take(channel, queue, limit):
            letters.append(_letter(queue, properties, body))
        # Not acknowledged: they are back in their places when the channel closes.
    return letters


def send_again(url: str, queue: str, *, limit: int | None = None) -> int:
    """Move dead letters back to their queue, the oldest first; return how many.

    None: all that are there now. Each leaves the dead only when its new place has confirmed it, so
    a crash doubles at most one, which is harmless. Raises Unavailable.
    """
    moved = 0
    with _channel(url) as channel:
        waiting = topology.declare_blocking(channel)[topology.dead_letters_of(queue)]
        channel.confirm_delivery()
        for tag, properties, body in _take(
            channel, queue, waiting if limit is None else min(limit, waiting)
        ):
            channel.basic_publish(
                exchange="",
                routing_key=queue,
                body=body,
                properties=BasicProperties(
                    content_type=properties.content_type,
                    delivery_mode=DeliveryMode.Persistent.value,
                ),
                mandatory=True,
            )
            channel.basic_ack(tag)
            moved += 1
    return moved


@contextmanager
def _channel(url: str) -> Iterator[BlockingChannel]:
    try:
        connection = BlockingConnection(read_url(url))
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()
    except (NackError, UnroutableError) as error:
        raise Unavailable("the queue takes no messages") from error
    except AMQPError as error:
        raise Unavailable(f"no answer from the broker: {error!r}") from error


def _take(
    channel: BlockingChannel, queue: str, limit: int
) -> Iterator[tuple[int, BasicProperties, bytes]]:
    for _ in range(limit):
        method, properties, body = channel.basic_get(topology.dead_letters_of(queue))
        if method is None or properties is None or body is None:
            return
        yield method.delivery_tag, properties, body


def _letter(queue: str, properties: BasicProperties, body: bytes) -> DeadLetter:
    death = _first_death(properties)
    return DeadLetter(
        queue=queue,
        reason=str(death.get("reason", "unknown")),
        died_at=death.get("time"),
        fault=_fault(queue, body),
        body=body.decode(errors="replace")[:_BODY_SHOWN],
    )


def _first_death(properties: BasicProperties) -> dict[str, Any]:
    deaths = (properties.headers or {}).get("x-death") or [{}]
    return dict(deaths[0])


def _fault(queue: str, body: bytes) -> str | None:
    try:
        if queue == topology.TRACKING_CLICK:
            read_clicks(body)
        else:
            read_batch(body)
    except UnreadableMessage as error:
        return error.message
    return None
