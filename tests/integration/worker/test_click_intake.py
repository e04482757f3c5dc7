"""Clicks that another tracker saw, from its message to the unlocked wait."""

import json
import secrets
from datetime import timedelta

import pika
import pytest

from services.worker.click_intake import ClickIntake
from shared.db.clock import server_now
from shared.db.connection import connect
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.click_consumer import ClickConsumer
from shared.messaging.dead_letters import count_dead_letters
from shared.messaging.transport import open_click_consumer
from shared.observability import metrics
from shared.queries.tracking import find_click
from shared.settings import read_settings
from shared.tracking.click_store import PostgresClicks
from tests.builders_db import FAR_OFF, LONG_AGO, insert_tenant, row_of
from tests.builders_delayed import insert_link, insert_wait


@pytest.fixture
def intake(database_url, rabbit_url):
    """A running intake."""
    consumer = ClickConsumer(rabbit_url)
    intake = ClickIntake(
        lambda: connect(database_url, application_name="clicks"),
        consumer=consumer,
        clicks=PostgresClicks(),
    )
    assert wait_until(consumer.ready, seconds=30)
    intake.start()
    yield intake
    intake.stop(seconds=10)
    assert not intake.runs


@pytest.fixture
def channel(rabbit_url):
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    channel = connection.channel()
    topology.declare_blocking(channel)
    yield channel
    connection.close()


@pytest.fixture
def tell(channel):
    """Sends clicks as another tracker does."""

    def tell(*items):
        body = json.dumps({"v": 1, "items": [[token, at.isoformat()] for token, at in items]})
        channel.basic_publish("", topology.TRACKING_CLICK, body.encode())

    return tell


@pytest.fixture
def link(conn):
    token = link_token(secrets.token_bytes(TOKEN_BYTES))
    return row_of(conn, "tracking_link", insert_link(conn, insert_tenant(conn), token=token))


def _is_emptied(channel, queue=topology.TRACKING_CLICK):
    return channel.queue_declare(queue, passive=True).method.message_count == 0


def _clicked(conn, link):
    return wait_until(lambda: find_click(conn, link["id"]) is not None, seconds=30)


@pytest.mark.usefixtures("intake")
def test_a_told_click_unlocks_the_wait_for_it(conn, tell):
    wait_id = insert_wait(conn, expires_at=FAR_OFF)
    link_id = row_of(conn, "scheduled_action", wait_id)["tracking_link_id"]

    tell((row_of(conn, "tracking_link", link_id)["token"], LONG_AGO))

    assert wait_until(
        lambda: row_of(conn, "scheduled_action", wait_id)["branch"] == "clicked", seconds=30
    )
    assert find_click(conn, link_id) == LONG_AGO


@pytest.mark.usefixtures("intake")
def test_a_click_in_the_future_counts_as_now(conn, link, tell):
    tell((link["token"], FAR_OFF))

    assert _clicked(conn, link)
    assert find_click(conn, link["id"]) <= server_now(conn)


def test_unknown_tokens_are_counted_and_the_others_taken(conn, link, tell, intake, rabbit_url):
    before = metrics.CLICKS_UNKNOWN._value.get()

    tell(("no link's", LONG_AGO), ("x" * 32, LONG_AGO), (link["token"], LONG_AGO))

    assert _clicked(conn, link)
    assert metrics.CLICKS_UNKNOWN._value.get() == before + 2
    intake.stop(seconds=10)
    assert count_dead_letters(rabbit_url)[topology.TRACKING_CLICK] == 0


@pytest.mark.usefixtures("intake")
def test_what_cannot_be_read_dies_and_the_next_is_taken(conn, link, tell, channel, rabbit_url):
    channel.basic_publish("", topology.TRACKING_CLICK, b"not JSON")
    channel.basic_publish(
        "", topology.TRACKING_CLICK, b'{"v":1,"kind":"trigger_run","items":[[1,"x"]]}'
    )
    tell((link["token"], LONG_AGO))

    assert _clicked(conn, link)
    dead = topology.TRACKING_CLICK
    assert wait_until(lambda: count_dead_letters(rabbit_url)[dead] == 2, seconds=30)


def test_clicks_wait_for_the_database(conn, link, tell, intake, other_conn, capsys):
    with other_conn.transaction():
        other_conn.execute("LOCK TABLE tracking_click IN EXCLUSIVE MODE")
        tell((link["token"], LONG_AGO))
        said = []

        def is_postponed():
            said.append(capsys.readouterr().out)
            return "clicks_postponed" in "".join(said)

        assert wait_until(is_postponed, seconds=30)

    assert _clicked(conn, link)


@pytest.mark.usefixtures("intake")
def test_a_lost_session_is_opened_again(conn, link, tell, admin_of_sessions):
    tell(("x" * 32, LONG_AGO))
    assert wait_until(admin_of_sessions.cut, seconds=30)

    tell((link["token"], LONG_AGO))

    assert _clicked(conn, link)


@pytest.fixture
def admin_of_sessions(conn):
    class Sessions:
        def cut(self):
            """End the intake's session; False while there is none."""
            return conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'clicks'"
            ).fetchone()

    return Sessions()


def test_a_message_is_forgotten_when_its_clicks_are_durable(conn, link, tell, intake, channel):
    tell((link["token"], LONG_AGO), (link["token"], LONG_AGO + timedelta(seconds=1)))
    counted = "SELECT clicks FROM tracking_click"
    assert wait_until(lambda: conn.execute(counted).fetchone() == (2,), seconds=30)

    intake.stop(seconds=10)

    assert wait_until(lambda: _is_emptied(channel), seconds=10)


def test_what_nobody_took_in_stays_in_its_queue(database_url, rabbit_url, link, tell, channel):
    consumer = ClickConsumer(rabbit_url)
    assert wait_until(consumer.ready, seconds=30)
    tell((link["token"], LONG_AGO))
    assert wait_until(lambda: consumer.receive(timeout=1) is not None, seconds=30)

    consumer.stop()

    assert wait_until(lambda: not _is_emptied(channel), seconds=10)


@pytest.mark.parametrize(
    ("roles", "broker", "consumes"),
    [
        ("action-worker", True, True),
        ("trigger-worker", True, False),
        ("action-worker", False, False),
    ],
)
def test_the_role_of_what_is_urgent_takes_clicks(monkeypatch, rabbit_url, roles, broker, consumes):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/duebook")
    monkeypatch.setenv("WORKER_ROLES", roles)
    monkeypatch.setenv("AMQP_URL", rabbit_url if broker else "")

    consumer = open_click_consumer(read_settings("worker"))

    assert (consumer is not None) == consumes
    if consumer:
        consumer.stop()
