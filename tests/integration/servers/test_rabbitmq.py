import pika
import pytest


def _open(url):
    return pika.BlockingConnection(pika.URLParameters(url))


def _declare(connection):
    channel = connection.channel()
    channel.queue_declare("work", durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    return channel


@pytest.mark.parametrize("_turn", [1, 2])
def test_every_test_has_a_virtual_host_of_its_own(rabbit_url, _turn):
    with _open(rabbit_url) as connection:
        channel = _declare(connection)
        channel.basic_publish("", "work", b"one")

        assert channel.queue_declare("work", passive=True).method.message_count == 1


def test_a_stopped_broker_comes_back_with_its_persistent_messages(restartable_rabbit):
    node, url = restartable_rabbit
    persistent = pika.BasicProperties(delivery_mode=2)
    connection = _open(url)
    _declare(connection).basic_publish("", "work", b"kept", persistent)

    node.stop()
    node.start()

    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(time_limit=10)
    with _open(url) as fresh:
        _, _, body = fresh.channel().basic_get("work", auto_ack=True)
    assert body == b"kept"
