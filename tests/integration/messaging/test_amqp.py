"""What only RabbitMQ can do to us: restart, refuse, return, block, cut, hand over nonsense."""

from uuid import uuid4

import pika
import pytest

from shared.domain.work import Announced
from shared.errors import Unavailable
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.amqp_consumer import AmqpConsumer
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.observability import metrics
from shared.queries.announcements import announce_batch
from tests.builders_db import insert_runs
from tests.integration.messaging.conftest import cut_connections

_LONG = 600.0
_SHORT = 0.5


def _rows(*, count=1, urgent=False, kind="trigger_run"):
    return [
        Announced(kind=kind, id=id, token=uuid4(), urgent=urgent, worker_losses=0, announcements=1)
        for id in range(1, count + 1)
    ]


def _vhost(url):
    return url.rpartition("/")[2]


@pytest.fixture
def channel(rabbit_url):
    """A channel of a test that plays the broker's user."""
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    yield connection.channel()
    connection.close()


def test_references_travel_in_groups_by_queue(publisher):
    assert publisher.publish(_rows(count=9)) == []
    assert publisher.publish(_rows(count=1, urgent=True)) == []

    depths = publisher.depths()

    assert depths[topology.FIRE] == 3  # of up to 4
    assert depths[topology.EXECUTE] == 1


def test_rows_of_two_kinds_share_queues_and_no_message(publisher):
    rows = [row for kind in ("trigger_run", "scheduled_action") for row in _rows(kind=kind)]
    urgent = _rows(kind="scheduled_action", count=2, urgent=True)

    assert publisher.publish(rows + urgent) == []

    depths = publisher.depths()
    assert (depths[topology.FIRE], depths[topology.EXECUTE]) == (2, 1)


def test_a_message_is_persistent_and_says_what_it_is(publisher, channel, kind):
    publisher.publish(_rows(kind=kind))

    _method, properties, body = channel.basic_get(topology.FIRE, auto_ack=True)

    assert properties.delivery_mode == 2
    assert properties.content_type == "application/json"
    assert body.startswith(b'{"v":1,"kind":"%s"' % kind.encode())


def test_queues_are_quorum_queues_with_a_limit_and_a_place_for_the_dead(
    publisher, rabbit_broker, rabbit_url
):
    names = (topology.FIRE, topology.EXECUTE)

    for name in names:
        queue = rabbit_broker.call("GET", f"/api/queues/{_vhost(rabbit_url)}/{name}")
        assert queue["durable"]
        assert queue["arguments"] == {
            "x-queue-type": "quorum",
            "x-delivery-limit": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{name}.dead",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }


def test_a_message_that_the_queue_refuses_is_not_confirmed(publisher, rabbit_broker, rabbit_url):
    rabbit_broker.call(
        "PUT",
        f"/api/policies/{_vhost(rabbit_url)}/full",
        {"pattern": f"^{topology.FIRE}$", "definition": {"max-length": 1}},
    )
    refused = []

    def fills_up():
        refused.extend(publisher.publish(_rows(count=4)))
        return refused

    assert wait_until(fills_up, seconds=30)
    assert len(refused) == 4
    assert publisher.ready()
    assert publisher.publish(_rows(urgent=True)) == []


def test_a_message_without_a_queue_is_not_confirmed_until_it_is_declared_again(publisher, channel):
    channel.queue_delete(topology.FIRE)
    rows = _rows(count=5)

    assert publisher.publish(rows) == rows

    # Made at once, the broker gives it the consumers of the old one and loses what they answer.
    with pytest.raises(Unavailable):
        publisher.depths()
    assert wait_until(publisher.ready, seconds=30)
    assert publisher.depths()[topology.FIRE] == 0
    assert publisher.publish(rows) == []


def test_a_lost_connection_is_opened_again(publisher, rabbit_broker, rabbit_url):
    cut_connections(rabbit_broker, rabbit_url, "duebook-publisher")

    assert wait_until(lambda: publisher.publish(_rows()) == [], seconds=30)


def test_a_broker_that_blocks_publishers_confirms_nothing(restartable_rabbit, opened):
    node, url = restartable_rabbit
    publisher = AmqpPublisher(url, fire_batch=4)
    opened.append(publisher.close)
    assert wait_until(publisher.ready, seconds=30)
    rows = _rows(count=5)

    node.control("set_vm_memory_high_watermark", "0.000001")
    try:
        # The alarm reaches the broker's connections a moment later.
        assert wait_until(lambda: publisher.publish(rows) == rows, seconds=30)
        assert not publisher.ready()
    finally:
        node.control("set_vm_memory_high_watermark", "absolute", "512MB")

    assert wait_until(publisher.ready, seconds=30)
    assert publisher.publish(rows) == []


def test_a_broker_that_restarts_loses_nothing(restartable_rabbit, open_claims, conn, opened):
    node, url = restartable_rabbit
    publisher = AmqpPublisher(url, fire_batch=4)
    opened.append(publisher.close)
    assert wait_until(publisher.ready, seconds=30)
    ids = insert_runs(conn, count=100)
    rows = announce_batch(conn, kind="trigger_run", urgent=False, limit=100)
    assert publisher.publish(rows) == []
    consumer = AmqpConsumer(
        url, queues=topology.WORK_QUEUES, threads=4, fire_batch=4, claimer=open_claims()
    )
    opened.append(consumer.stop)
    received = consumer.receive(free=4, timeout=_LONG)

    node.stop()
    try:
        assert wait_until(lambda: not publisher.ready() and not consumer.ready(), seconds=60)
        assert publisher.publish(rows) == rows
    finally:
        node.start()
    while len(received) < 100:
        received += consumer.receive(free=4, timeout=_LONG)

    assert sorted(run.id for run in received) == ids
    assert wait_until(publisher.ready, seconds=30)


def test_what_cannot_be_read_goes_to_the_dead_letters_at_once(
    amqp, publisher, channel, open_claims, conn
):
    before = metrics.MESSAGES_UNREADABLE._value.get()
    channel.basic_publish("", topology.FIRE, b"\xff not JSON")
    channel.basic_publish("", topology.FIRE, b'{"v":2,"kind":"trigger_run","items":[]}')
    ids = insert_runs(conn, count=1)
    consumer = amqp.open_consumer(open_claims())

    amqp.announce()
    received = consumer.receive(free=4, timeout=_LONG)

    assert [run.id for run in received] == ids
    assert metrics.MESSAGES_UNREADABLE._value.get() == before + 2
    dead = topology.dead_letters_of(topology.FIRE)
    assert wait_until(lambda: publisher.depths()[dead] == 2, seconds=30)
    assert publisher.depths()[topology.FIRE] == 0


def test_a_deleted_queue_is_consumed_again(amqp, publisher, channel, open_claims, conn):
    consumer = amqp.open_consumer(open_claims())
    channel.queue_delete(topology.FIRE)
    assert wait_until(lambda: not consumer.ready(), seconds=30)
    assert wait_until(consumer.ready, seconds=30)

    insert_runs(conn, count=1)
    amqp.announce()

    assert len(consumer.receive(free=4, timeout=_LONG)) == 1


def test_refused_claims_are_counted(amqp, open_claims, conn):
    before = metrics.CLAIMS_REFUSED._value.get()
    insert_runs(conn, count=3)
    amqp.announce()
    conn.execute("DELETE FROM trigger_run")
    consumer = amqp.open_consumer(open_claims())

    assert consumer.receive(free=4, timeout=_LONG) == []

    assert metrics.CLAIMS_REFUSED._value.get() == before + 3


def test_without_a_broker_nothing_is_ready_and_closing_is_quick(open_claims):
    url = "amqp://nobody:nothing@127.0.0.1:1/none"
    publisher = AmqpPublisher(url, fire_batch=4)
    consumer = AmqpConsumer(
        url, queues=topology.WORK_QUEUES, threads=4, fire_batch=4, claimer=open_claims()
    )
    rows = _rows()

    assert not publisher.ready()
    assert publisher.publish(rows) == rows
    assert not consumer.ready()
    assert consumer.receive(free=4, timeout=_SHORT) == []

    consumer.stop()
    publisher.close()
