"""The queues of the product, with their arguments, in the one place that names them.

A queue that exists with other arguments cannot be declared: to change one is to name a new queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

# The names of the queues are asked for in processes that never talk to the broker.
if TYPE_CHECKING:
    from pika import spec
    from pika.adapters.blocking_connection import BlockingChannel
    from pika.channel import Channel
    from pika.frame import Method

FIRE = "scheduled_action_fire"
EXECUTE = "action_execute"
TRACKING_CLICK = "tracking_click"
WORK_QUEUES = (FIRE, EXECUTE)
QUEUE_OF_ROLE = {"trigger-worker": FIRE, "action-worker": EXECUTE}
CONSUMED_QUEUES = (*WORK_QUEUES, TRACKING_CLICK)

# A delivery is counted when its consumer went away before the claim was committed.
_DELIVERY_LIMIT = 20
# Looking into a dead-letter queue counts as a delivery too, and RabbitMQ 4 drops after 20 unless
# told otherwise; a way to say "never" that 3.10 also takes does not exist.
_NEVER = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A durable quorum queue."""

    name: str
    arguments: dict[str, str | int] = field(default_factory=dict)


def dead_letters_of(queue: str) -> str:
    """Return the name of the queue that takes the dead letters of ``queue``."""
    return f"{queue}.dead"


def _queues() -> Sequence[Queue]:
    quorum: dict[str, str | int] = {"x-queue-type": "quorum"}
    dead = {**quorum, "x-delivery-limit": _NEVER}
    work = {**quorum, "x-delivery-limit": _DELIVERY_LIMIT, "x-dead-letter-exchange": ""}
    # At-least-once moves a dead letter only when its new queue has confirmed it; the broker grants
    # that only to queues that refuse new messages when full instead of dropping old ones.
    work |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    return [
        queue
        for name in CONSUMED_QUEUES
        for queue in (
            Queue(name=dead_letters_of(name), arguments=dead),
            Queue(name=name, arguments=work | {"x-dead-letter-routing-key": dead_letters_of(name)}),
        )
    ]


QUEUES = tuple(_queues())


def declare(channel: Channel, *, then: Callable[[dict[str, int]], None]) -> None:
    """Declare every queue and pass on, by name, how many messages wait in each.

    To declare a queue that exists changes nothing; one that was deleted is there again.
    """
    _ask(channel, then, passive=False)


def count(channel: Channel, *, then: Callable[[dict[str, int]], None]) -> None:
    """Pass on, by name, how many messages wait in each queue; make none.

    The broker closes the channel if there is not every one of them.
    """
    _ask(channel, then, passive=True)


def _ask(channel: Channel, then: Callable[[dict[str, int]], None], *, passive: bool) -> None:
    waiting: dict[str, int] = {}

    def answered(answer: Method[spec.Queue.DeclareOk]) -> None:
        waiting[answer.method.queue] = answer.method.message_count
        if len(waiting) == len(QUEUES):
            then(waiting)

    for queue in QUEUES:
        channel.queue_declare(
            queue.name,
            passive=passive,
            durable=True,
            arguments=queue.arguments,
            callback=answered,
        )


def declare_blocking(channel: BlockingChannel) -> dict[str, int]:
    """Declare every queue and return, by name, how many messages wait in each."""
    return {
        queue.name: channel.queue_declare(
            queue.name, durable=True, arguments=queue.arguments
        ).method.message_count
        for queue in QUEUES
    }
