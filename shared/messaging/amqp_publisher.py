"""Publishing to RabbitMQ: persistent, mandatory, confirmed in batches and never one by one."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, TypeVar

import structlog
from pika import BasicProperties, DeliveryMode, spec
from pika.channel import Channel
from pika.connection import Connection
from pika.frame import Method

from shared.domain.work import Announced, Reference
from shared.errors import Unavailable
from shared.messaging import topology
from shared.messaging.amqp_connection import BrokerConnection
from shared.messaging.messages import Batch, pack

_log = structlog.get_logger()
T = TypeVar("T")

CONFIRM_SECONDS = 30.0
_DEPTHS_SECONDS = 5.0


class Confirms:
    """What became of the messages of one call; the broker answers in any order and in groups."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Announced]] = {}
        self._returned: set[int] = set()
        self.unconfirmed: list[Announced] = []

    @property
    def complete(self) -> bool:
        """Whether the broker has said something about every message."""
        return not self._waiting

    def sent(self, tag: int, rows: list[Announced]) -> None:
        """Note a message; tags only grow."""
        self._waiting[tag] = rows

    def returned(self, tag: int) -> None:
        """Note that no queue took it; the broker acknowledges such a message all the same."""
        self._returned.add(tag)

    def answered(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        """Note the broker's answer to one message, or to all up to it."""
        tags = [waiting for waiting in self._waiting if waiting <= tag] if multiple else [tag]
        for each in tags:
            rows = self._waiting.pop(each, [])
            if not accepted or each in self._returned:
                self.unconfirmed += rows


class AmqpPublisher:
    """The scanner's publisher; ``publish`` and ``depths`` are called by one thread."""

    def __init__(self, url: str, *, fire_batch: int) -> None:
        """Begin to connect; ``fire_batch`` is how many references a message carries at most."""
        self._fire_batch = fire_batch
        self._taken = False
        self._answer: Future[Any] = Future()  # of the last question, of whichever kind
        self._last_tag = 0
        self._confirms = Confirms()
        self._confirmed: Future[list[Announced]] = Future()
        self._connection = BrokerConnection(
            url, name="duebook-publisher", on_open=self._opened, on_lost=self._lost
        )
        self._connection.start()

    def ready(self) -> bool:
        """Return whether the broker takes messages at this moment."""
        return self._taken

    def publish(self, announced: Sequence[Announced]) -> list[Announced]:
        """Send references and return those that the broker did not confirm within 30 seconds.

        Refused, returned, or sent on a connection that was lost or blocked: not confirmed.
        """
        if not announced or not self.ready():
            return list(announced)
        try:
            return self._ask(
                lambda channel, answer: self._send(channel, announced, answer), CONFIRM_SECONDS
            )
        except Unavailable as error:
            _log.warning("publish_not_confirmed", references=len(announced), reason=error.message)
            return list(announced)

    def depths(self) -> dict[str, int]:
        """Return by queue how many messages wait in it.

        Raises Unavailable if the broker does not answer, and if a queue was deleted: it is made
        again with the next connection. Made at once, it would be taken by the broker for the old
        one, in which its consumers are: they get its messages, and their answers go nowhere.
        """
        if not self.ready():  # one that blocks us does not even read the question
            raise Unavailable("the broker takes no messages")

        def count(channel: Channel, answer: Future[dict[str, int]]) -> None:
            topology.count(channel, then=lambda depths: _give(answer, depths))

        return self._ask(count, _DEPTHS_SECONDS)

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def _ask(self, question: Callable[[Channel, Future[T]], None], seconds: float) -> T:
        answer: Future[T] = Future()
        self._answer = answer
        if not self._connection.call(lambda channel: question(channel, answer)):
            raise Unavailable("no connection to the broker")
        try:
            return answer.result(seconds)
        except NoAnswer as error:
            # It may be alive and yet unable, such as a cluster without a majority: a new connection
            # is not ready before the queues have answered.
            self._taken = False
            self._connection.drop()
            raise Unavailable(f"the broker did not answer within {seconds:.0f} s") from error

    # What follows runs on the connection's thread.

    def _opened(self, channel: Channel) -> None:
        connection = channel.connection
        connection.add_on_connection_blocked_callback(self._blocked)
        connection.add_on_connection_unblocked_callback(self._unblocked)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._answered, callback=self._confirming)
        self._last_tag = 0

    def _confirming(self, _method: Method[spec.Confirm.SelectOk]) -> None:
        self._taken = True

    def _send(
        self, channel: Channel, announced: Sequence[Announced], answer: Future[list[Announced]]
    ) -> None:
        self._confirms, self._confirmed = Confirms(), answer
        for rows in pack(announced, size=self._fire_batch):
            self._last_tag += 1
            self._confirms.sent(self._last_tag, rows)
            references = tuple(Reference(id=row.id, token=row.token) for row in rows)
            channel.basic_publish(
                exchange="",
                routing_key=topology.EXECUTE if rows[0].urgent else topology.FIRE,
                body=Batch(kind=rows[0].kind, items=references).to_bytes(),
                properties=BasicProperties(
                    content_type="application/json",
                    delivery_mode=DeliveryMode.Persistent.value,
                    message_id=str(self._last_tag),
                ),
                mandatory=True,
            )

    def _returned(
        self,
        _channel: Channel,
        _method: spec.Basic.Return,
        properties: BasicProperties,
        _body: bytes,
    ) -> None:
        _log.warning("message_returned", message_id=properties.message_id)
        self._confirms.returned(int(properties.message_id or 0))

    def _answered(self, frame: Method[spec.Basic.Ack | spec.Basic.Nack]) -> None:
        method = frame.method
        accepted = isinstance(method, spec.Basic.Ack)
        self._confirms.answered(method.delivery_tag, multiple=method.multiple, accepted=accepted)
        if self._confirms.complete:
            _give(self._confirmed, self._confirms.unconfirmed)

    def _blocked(self, _connection: Connection, _method: Method[spec.Connection.Blocked]) -> None:
        self._refuse("the broker blocks publishers")

    def _unblocked(
        self, _connection: Connection, _method: Method[spec.Connection.Unblocked]
    ) -> None:
        _log.info("broker_unblocked")
        self._taken = True

    def _lost(self) -> None:
        self._refuse("the connection was lost")

    def _refuse(self, reason: str) -> None:
        self._taken = False
        if not self._answer.done():
            self._answer.set_exception(Unavailable(reason))


def _give(answer: Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)
