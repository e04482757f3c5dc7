"""The worker as a process: it leads workflows on, and leaves nothing half when it is stopped."""

import os
import signal

import pytest
from psycopg.types.json import Jsonb

from shared.lifecycle import wait_until
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.queries.announcements import announce_batch
from shared.usecases.announce import recover
from tests.integration.worker.processes import a_held_receiver
from tests.integration.worker.runs import api_call, notify
from tests.integration.worker.waits import a_wait, act, click, delay, start, token_of

SECONDS = 60

pytestmark = pytest.mark.usefixtures("nothing_broken")


def statuses(bench):
    return [action["status"] for action in bench.actions()]


def test_a_worker_alone_leads_a_workflow_on_and_wakes_for_its_delays(bench, conn, start_worker):
    start_worker()

    start(conn, [act(notify("one")), delay(1), act(notify("two"))])

    assert wait_until(lambda: bench.messages() == ["one", "two"], seconds=SECONDS)
    assert wait_until(lambda: statuses(bench) == ["done"] * 3, seconds=SECONDS)


def test_a_worker_alone_expires_waits_and_is_woken_by_clicks(bench, conn, start_worker):
    on_expire = Jsonb([notify("nobody came")])
    bench.wait(notify("expired"), **a_wait(conn, seconds=2, on_expire=on_expire))
    clicked = a_wait(conn, seconds=3600)
    bench.wait(notify("thanks"), **clicked)
    start_worker()

    click(conn, token_of(conn, clicked["tracking_link_id"]))

    assert wait_until(
        lambda: sorted(bench.messages()) == ["nobody came", "thanks"], seconds=SECONDS
    )


def test_a_delayed_action_of_a_run_is_executed_in_its_time(bench, start_worker):
    bench.insert(notify("later $row.title") | {"delay": {"seconds": 1}}, notify("now"))

    start_worker()

    assert wait_until(lambda: bench.messages() == ["now", "later broken lamp"], seconds=SECONDS)


@pytest.mark.parametrize("over_a_broker", [False, True])
def test_a_step_of_a_killed_worker_is_called_again_and_followed_once(
    bench, conn, start_worker, request, over_a_broker
):
    url = request.getfixturevalue("rabbit_url") if over_a_broker else ""
    with a_held_receiver() as receiver:
        environment = {"ALLOWED_PORTS": str(receiver.port), "AMQP_URL": url}
        start(conn, [act(notify("one")), act(api_call(receiver.url)), act(notify("two"))])
        first = start_worker(**environment)
        announce = announcer(conn, url) if over_a_broker else lambda: None
        assert wait_until(lambda: announce() or len(receiver.requests) == 1, seconds=SECONDS)

        os.kill(first.pid, signal.SIGKILL)
        start_worker(**environment)

        def is_called_again():
            recover(conn)
            announce()
            return len(receiver.requests) == 2

        assert wait_until(is_called_again, seconds=SECONDS)
        receiver.let_go.set()
        assert wait_until(lambda: announce() or statuses(bench) == ["done"] * 3, seconds=SECONDS)

    assert bench.messages() == ["one", "two"]
    step = bench.actions()[1]
    assert (step["attempts"], step["worker_losses"], step["starts"]) == (1, 1, 2)
    headers = [each.headers for each in receiver.requests]
    assert len({each["idempotency-key"] for each in headers}) == 1
    assert [each["duebook-delivery"] for each in headers] == ["1", "2"]


def announcer(conn, url):
    """Return what announces all that is due, as a scanner does."""
    publisher = AmqpPublisher(url, fire_batch=4)
    assert wait_until(publisher.ready, seconds=SECONDS)

    def announce():
        for urgent in (True, False):
            due = announce_batch(conn, kind="scheduled_action", urgent=urgent, limit=100)
            publisher.publish(due)

    return announce


def test_a_worker_told_to_stop_ends_its_actions_and_hands_the_rest_back(bench, conn, start_worker):
    with a_held_receiver() as receiver:
        for _ in range(6):
            start(conn, [act(api_call(receiver.url)), act(notify("after"))])
        worker = start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: len(receiver.requests) == 4, seconds=SECONDS)

        os.kill(worker.pid, signal.SIGTERM)
        receiver.let_go.set()
        assert wait_until(lambda: worker.poll() is not None, seconds=SECONDS)

    assert worker.poll() == 0
    steps = bench.actions()
    assert {step["worker_losses"] for step in steps} == {0}
    assert {step["status"] for step in steps} <= {"pending", "done"}
    assert {step["attempts"] for step in steps if step["status"] == "pending"} == {0}
    called = [step for step in steps if step["workflow_node_path"] == "0"]
    assert sum(step["status"] == "done" for step in called) == len(receiver.requests)
    followed = sum(step["workflow_node_path"] == "1" for step in steps)
    assert followed == len(receiver.requests)
