import pika
import pytest

from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.dead_letters import count_dead_letters
from tests.integration.cli.conftest import CommandLine


@pytest.fixture
def operator(database_url, rabbit_url):
    return CommandLine(DATABASE_URL=database_url, AMQP_URL=rabbit_url)


ONE_DEAD = dict.fromkeys(topology.CONSUMED_QUEUES, 0) | {topology.FIRE: 1}


@pytest.fixture
def a_dead_letter(rabbit_url):
    """A message that nobody could read."""
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    channel = connection.channel()
    topology.declare_blocking(channel)
    channel.basic_publish("", topology.dead_letters_of(topology.FIRE), b"no batch")
    connection.close()
    assert wait_until(lambda: count_dead_letters(rabbit_url)[topology.FIRE] == 1, seconds=30)


@pytest.mark.usefixtures("a_dead_letter")
def test_dead_letters_are_shown_and_stay_until_they_are_sent_again(operator, rabbit_url):
    shown = operator.told("dead-letters", topology.FIRE)
    assert shown["counts"] == ONE_DEAD
    assert [letter["body"] for letter in shown["letters"]] == ["no batch"]
    assert "no batch" in operator.run("dead-letters").stdout

    moved = operator.told("dead-letters", "requeue")

    assert moved == ONE_DEAD
    assert count_dead_letters(rabbit_url)[topology.FIRE] == 0


def test_without_a_broker_there_are_none(on_database):
    done = on_database.run("dead-letters")

    assert done.exit_code == 1
    assert "AMQP_URL is not set" in done.stderr
