"""A worker told to stop, at whatever moment: it ends in time, and what it did not begin is free."""

import os
import signal

import pytest

from shared.lifecycle import wait_until
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.queries.announcements import announce_batch
from shared.queries.workers import living_workers
from shared.usecases.announce import recover
from tests.integration.worker.processes import a_held_receiver
from tests.integration.worker.runs import api_call, notify

SECONDS = 60


@pytest.fixture
def publish_due(conn, rabbit_url):
    """Announces all that is due, as a scanner does."""
    publisher = AmqpPublisher(rabbit_url, fire_batch=4)
    assert wait_until(publisher.ready, seconds=SECONDS)
    yield lambda: publisher.publish(
        announce_batch(conn, kind="trigger_run", urgent=False, limit=100)
    )
    publisher.close()


def exit_status(worker):
    assert wait_until(lambda: worker.poll() is not None, seconds=SECONDS), worker.log()
    return worker.poll()


def test_a_worker_told_to_stop_ends_its_actions_hands_the_rest_back_and_exits_well(
    bench, conn, start_worker
):
    with a_held_receiver() as receiver:
        ids = [bench.insert(api_call(receiver.url), notify(f"{number}")) for number in range(6)]
        worker = start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: len(receiver.requests) == 4, seconds=SECONDS)

        os.kill(worker.pid, signal.SIGTERM)
        receiver.let_go.set()
        assert wait_until(lambda: worker.poll() is not None, seconds=SECONDS)

    runs = [bench.run(id) for id in ids]
    assert worker.poll() == 0
    assert {run["status"] for run in runs} <= {"pending", "done"}
    assert {run["worker_losses"] for run in runs} == {0}
    assert [run["attempts"] for run in runs if run["status"] == "pending"] == [0] * len(
        [run for run in runs if run["status"] == "pending"]
    )
    assert sum(len(run["action_results"]) >= 1 for run in runs) == len(receiver.requests)


def test_a_worker_told_to_stop_while_it_waits_for_work_says_that_it_lives_no_more(
    conn, start_worker
):
    worker = start_worker()
    assert wait_until(lambda: worker.health() == "ok", seconds=SECONDS)

    worker.terminate()

    assert exit_status(worker) == 0
    assert living_workers(conn) == []
    assert conn.execute("SELECT stopped_at IS NOT NULL FROM worker").fetchall() == [(True,)]


def test_a_worker_told_to_stop_while_it_starts_ends_well(conn, start_worker):
    worker = start_worker()
    assert wait_until(lambda: living_workers(conn), seconds=SECONDS)

    worker.terminate()

    assert exit_status(worker) == 0
    assert wait_until(lambda: living_workers(conn) == [], seconds=SECONDS)


def test_a_worker_told_to_stop_before_it_has_a_database_ends(start_worker, unused_port):
    worker = start_worker(DATABASE_URL=f"postgresql://nobody@127.0.0.1:{unused_port}/none")
    assert wait_until(lambda: worker.health() == "the database is not reached", seconds=SECONDS)
    assert worker.health("/healthz") == "ok"

    worker.terminate()

    assert exit_status(worker) == 0


def test_a_worker_told_to_stop_while_the_database_is_silent_ends_in_time(
    bench, proxy, start_worker
):
    with a_held_receiver() as receiver:
        bench.insert(api_call(receiver.url))
        worker = start_worker(
            DATABASE_URL=proxy.url,
            ALLOWED_PORTS=str(receiver.port),
            ACTION_DEADLINE_SECONDS="1",
            GRACE_SECONDS="16",
        )
        assert wait_until(lambda: receiver.requests, seconds=SECONDS)

        proxy.be_silent()
        worker.terminate()

        assert worker.child.wait(seconds=16) == 0
    proxy.speak()


def test_a_second_signal_ends_a_worker_at_once_and_its_work_is_taken_back(
    bench, conn, start_worker
):
    with a_held_receiver() as receiver:
        run_id = bench.insert(api_call(receiver.url))
        worker = start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: receiver.requests, seconds=SECONDS)

        worker.terminate()
        assert wait_until(lambda: worker.health() == "stopping", seconds=SECONDS), worker.log()
        os.kill(worker.pid, signal.SIGINT)
        assert exit_status(worker) == 1

    def is_taken_back():
        recover(conn)
        return bench.run(run_id)["status"] == "pending"

    assert wait_until(is_taken_back, seconds=SECONDS)


def test_a_worker_over_a_broker_gives_back_what_it_did_not_begin(
    bench, conn, rabbit_url, start_worker, publish_due
):
    with a_held_receiver() as receiver:
        ids = [bench.insert(api_call(receiver.url)) for _ in range(12)]
        worker = start_worker(ALLOWED_PORTS=str(receiver.port), AMQP_URL=rabbit_url)
        publish_due()
        assert wait_until(lambda: len(receiver.requests) == 4, seconds=SECONDS)

        worker.terminate()
        assert wait_until(lambda: worker.health() == "stopping", seconds=SECONDS), worker.log()
        assert wait_until(lambda: running(conn) == 4, seconds=SECONDS)
        receiver.let_go.set()
        assert exit_status(worker) == 0

        start_worker(ALLOWED_PORTS=str(receiver.port), AMQP_URL=rabbit_url)
        publish_due()
        assert wait_until(
            lambda: all(bench.run(id)["status"] == "done" for id in ids), seconds=SECONDS
        )

    assert len(receiver.requests) == 12
    assert {(bench.run(id)["attempts"], bench.run(id)["worker_losses"]) for id in ids} == {(1, 0)}


def running(conn):
    return conn.execute("SELECT count(*) FROM trigger_run WHERE status = 'running'").fetchone()[0]
