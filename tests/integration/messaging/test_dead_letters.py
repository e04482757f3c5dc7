import json
from datetime import UTC, timedelta
from uuid import uuid4

import pika
import pytest

from shared.db.clock import server_now
from shared.errors import Unavailable
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.dead_letters import count_dead_letters, list_dead_letters, send_again

_NOBODY = "amqp://nobody:nothing@127.0.0.1:1/none"


@pytest.fixture
def channel(rabbit_url):
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    channel = connection.channel()
    topology.declare_blocking(channel)
    yield channel
    connection.close()


@pytest.fixture
def die(channel, rabbit_url):
    """Sends bodies to a queue and has them rejected."""

    def die(*bodies, queue=topology.FIRE):
        for body in bodies:
            channel.basic_publish("", queue, body)
            assert wait_until(lambda: _reject(channel, queue), seconds=30)
        count = len(bodies)
        assert wait_until(lambda: count_dead_letters(rabbit_url)[queue] == count, seconds=30)

    return die


def _reject(channel, queue):
    method, _properties, _body = channel.basic_get(queue)
    if method:
        channel.basic_reject(method.delivery_tag, requeue=False)
    return bool(method)


def _bodies(letters):
    return [letter.body for letter in letters]


def test_a_queue_without_dead_letters_has_none(rabbit_url):
    assert count_dead_letters(rabbit_url) == dict.fromkeys(topology.CONSUMED_QUEUES, 0)
    assert list_dead_letters(rabbit_url, topology.FIRE, limit=10) == []
    assert send_again(rabbit_url, topology.FIRE) == 0


def test_looking_says_why_and_leaves_everything_in_its_place(rabbit_url, die, conn):
    die(b"one", b"\xfftwo", b"three" * 1000)

    for _ in range(30):  # more often than RabbitMQ 4 delivers by default
        letters = list_dead_letters(rabbit_url, topology.FIRE, limit=2)

    assert _bodies(letters) == ["one", "\N{REPLACEMENT CHARACTER}two"]
    assert {(letter.queue, letter.reason) for letter in letters} == {(topology.FIRE, "rejected")}
    assert all(letter.fault for letter in letters)
    died_ago = server_now(conn) - letters[0].died_at.astimezone(UTC)
    assert abs(died_ago) < timedelta(hours=1)
    assert count_dead_letters(rabbit_url)[topology.FIRE] == 3
    assert len(list_dead_letters(rabbit_url, topology.FIRE, limit=10)[2].body) == 1000


def test_a_dead_letter_that_can_be_read_has_no_fault(rabbit_url, die):
    body = json.dumps({"v": 1, "kind": "trigger_run", "items": [[1, str(uuid4())]]})
    die(body.encode())

    (letter,) = list_dead_letters(rabbit_url, topology.FIRE, limit=10)

    assert letter.fault is None
    assert letter.body == body


def test_a_dead_letter_is_read_as_those_of_its_queue_are(rabbit_url, die):
    clicks = json.dumps({"v": 1, "items": [["x", "2026-08-27T05:02:13Z"]]}).encode()
    die(clicks, queue=topology.TRACKING_CLICK)
    die(clicks, queue=topology.FIRE)

    (readable,) = list_dead_letters(rabbit_url, topology.TRACKING_CLICK, limit=10)
    (unreadable,) = list_dead_letters(rabbit_url, topology.FIRE, limit=10)

    assert readable.fault is None
    assert unreadable.fault is not None


def test_each_queue_has_its_own_dead_letters(rabbit_url, die):
    die(b"late", queue=topology.FIRE)
    die(b"soon", queue=topology.EXECUTE)

    assert _bodies(list_dead_letters(rabbit_url, topology.EXECUTE, limit=10)) == ["soon"]
    assert send_again(rabbit_url, topology.EXECUTE) == 1
    left = {topology.FIRE: 1, topology.EXECUTE: 0, topology.TRACKING_CLICK: 0}
    assert count_dead_letters(rabbit_url) == left


def test_sent_again_they_are_back_in_their_queue_oldest_first(rabbit_url, die, channel):
    die(b"one", b"two", b"three")

    assert send_again(rabbit_url, topology.FIRE, limit=2) == 2

    assert [channel.basic_get(topology.FIRE, auto_ack=True)[2] for _ in range(2)] == [
        b"one",
        b"two",
    ]
    assert _bodies(list_dead_letters(rabbit_url, topology.FIRE, limit=10)) == ["three"]


def test_what_its_queue_refuses_stays_dead(rabbit_url, rabbit_broker, die, channel):
    die(b"one")
    vhost = rabbit_url.rpartition("/")[2]
    policy = {"pattern": f"^{topology.FIRE}$", "definition": {"max-length-bytes": 1}}
    rabbit_broker.call("PUT", f"/api/policies/{vhost}/full", policy)
    channel.confirm_delivery()

    def is_full():
        try:
            channel.basic_publish("", topology.FIRE, b"filling")
        except pika.exceptions.NackError:
            return True
        return False

    assert wait_until(is_full, seconds=30)

    with pytest.raises(Unavailable):
        send_again(rabbit_url, topology.FIRE)

    assert _bodies(list_dead_letters(rabbit_url, topology.FIRE, limit=10)) == ["one"]


@pytest.mark.parametrize(
    "ask",
    [
        count_dead_letters,
        lambda url: list_dead_letters(url, topology.FIRE, limit=1),
        lambda url: send_again(url, topology.FIRE),
    ],
)
def test_a_broker_that_is_away_is_told(ask):
    with pytest.raises(Unavailable):
        ask(_NOBODY)
