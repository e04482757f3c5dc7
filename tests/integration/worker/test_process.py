"""The worker as a process: what is left when it is killed, frozen, or cut off."""

import os
import signal
import socket

import pytest

from shared.db.connection import connect
from shared.lifecycle import wait_until
from shared.queries.notifications import notify_work
from shared.usecases.announce import recover
from tests.integration.worker.processes import a_held_receiver
from tests.integration.worker.runs import api_call, notify
from tests.servers.postgres import ROLE

# A dead worker is told by its lock only when the server has been up for 30 s.
SECONDS = 60


def ended(bench, *ids):
    return lambda: all(bench.run(id)["status"] in ("done", "failed") for id in ids)


def wake(conn):
    with conn.transaction():
        notify_work(conn)


def test_a_worker_executes_what_is_due_and_what_it_is_woken_for(bench, conn, start_worker):
    early = bench.insert(notify("early"))
    start_worker()

    assert wait_until(ended(bench, early), seconds=SECONDS)
    late = bench.insert(notify("late"))
    wake(conn)
    assert wait_until(ended(bench, late), seconds=SECONDS)

    assert bench.messages() == ["early", "late"]


def test_a_worker_whose_role_may_not_have_its_sessions_says_so_and_ends(
    postgres_process, start_worker
):
    limited = f"ALTER ROLE {ROLE} CONNECTION LIMIT"
    with connect(postgres_process.server.url("postgres"), application_name="admin") as admin:
        admin.execute(f"{limited} 8")
        try:
            worker = start_worker()
            assert wait_until(lambda: worker.poll() is not None, seconds=SECONDS)
        finally:
            admin.execute(f"{limited} -1")

    assert worker.poll() == 2
    assert "a worker has 9, and the database's role may have 8" in worker.log()


def test_a_worker_whose_health_port_is_taken_says_so_and_ends(start_worker):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = start_worker(HEALTH_PORT=str(port))
        assert wait_until(lambda: worker.poll() is not None, seconds=SECONDS)

    assert worker.poll() == 2
    told = f"HEALTH_HOST, HEALTH_PORT: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert worker.log().strip() == told


@pytest.mark.parametrize(
    ("key", "url"),
    [("REDIS_URL", "redis://h1?hunter2=1"), ("AMQP_URL", "amqp://h1?heartbeat=hunter2")],
)
def test_a_worker_whose_url_its_driver_cannot_read_says_so_and_ends(start_worker, key, url):
    worker = start_worker(**{key: url})

    assert wait_until(lambda: worker.poll() is not None, seconds=SECONDS)
    assert worker.poll() == 2
    assert f"{key}: Must have the parameters of its driver." in worker.log()
    assert not any(word in worker.log() for word in ("Traceback", "hunter2"))


def test_a_worker_that_may_not_retry_lets_what_failed_for_now_end(bench, start_worker, unused_port):
    run_id = bench.insert(api_call(f"http://127.0.0.1:{unused_port}/"))

    start_worker(ALLOWED_PORTS=str(unused_port), MAX_RETRIES="0")

    assert wait_until(ended(bench, run_id), seconds=SECONDS)
    assert (bench.run(run_id)["status"], bench.run(run_id)["attempts"]) == ("failed", 1)


def test_work_of_a_killed_worker_runs_again_and_repeats_nothing_recorded(bench, conn, start_worker):
    with a_held_receiver() as receiver:
        run_id = bench.insert(notify("once"), api_call(receiver.url))
        first = start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: len(receiver.requests) == 1, seconds=SECONDS)

        os.kill(first.pid, signal.SIGKILL)
        start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: len(receiver.requests) == 2, seconds=SECONDS)
        receiver.let_go.set()
        assert wait_until(ended(bench, run_id), seconds=SECONDS)

    run = bench.run(run_id)
    assert (run["status"], run["attempts"], run["worker_losses"], run["starts"]) == (
        "done",
        1,
        1,
        2,
    )
    assert bench.messages() == ["once"]
    keys = {request.headers["idempotency-key"] for request in receiver.requests}
    assert len(keys) == 1


def test_a_worker_frozen_beyond_its_lease_changes_nothing_when_it_wakes(bench, conn, start_worker):
    with a_held_receiver() as receiver:
        run_id = bench.insert(api_call(receiver.url), notify("after"))
        frozen = start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: len(receiver.requests) == 1, seconds=SECONDS)

        os.kill(frozen.pid, signal.SIGSTOP)
        conn.execute("UPDATE trigger_run SET leased_until = clock_timestamp() - interval '1 s'")
        receiver.let_go.set()
        start_worker(ALLOWED_PORTS=str(receiver.port))
        assert wait_until(ended(bench, run_id), seconds=SECONDS)
        before = bench.run(run_id)
        os.kill(frozen.pid, signal.SIGCONT)
        other = bench.insert(notify("other"))
        wake(conn)
        assert wait_until(ended(bench, other), seconds=SECONDS)
        os.kill(frozen.pid, signal.SIGTERM)
        assert wait_until(lambda: frozen.poll() is not None, seconds=SECONDS)

    assert bench.run(run_id) == before
    assert bench.messages() == ["after", "other"]


def test_a_worker_outlives_the_loss_of_every_database_session(bench, conn, start_worker):
    first = bench.insert(notify("first"))
    start_worker()
    assert wait_until(ended(bench, first), seconds=SECONDS)

    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'duebook%'"
    )
    second = bench.insert(notify("second"))

    assert wait_until(ended(bench, second), seconds=SECONDS)


def test_a_silent_database_costs_a_call_in_flight_nothing(bench, proxy, start_worker):
    with a_held_receiver() as receiver:
        run_id = bench.insert(api_call(receiver.url), notify("after"))
        start_worker(DATABASE_URL=proxy.url, ALLOWED_PORTS=str(receiver.port))
        assert wait_until(lambda: receiver.requests, seconds=SECONDS)

        proxy.be_silent()
        receiver.let_go.set()
        assert bench.run(run_id)["action_results"] == []
        proxy.speak()
        assert wait_until(ended(bench, run_id), seconds=SECONDS)

    run = bench.run(run_id)
    assert (run["status"], run["attempts"], run["worker_losses"]) == ("done", 1, 0)
    assert len(receiver.requests) == 1


def test_a_run_that_kills_its_worker_five_times_fails_and_its_neighbours_do_not(
    bench, conn, start_worker
):
    with a_held_receiver() as receiver:
        deadly = bench.insert(api_call(receiver.url))
        neighbours = []
        for losses in range(1, 6):
            neighbours.append(bench.insert(notify("fine")))
            worker = start_worker(ALLOWED_PORTS=str(receiver.port))
            assert wait_until(lambda: len(receiver.requests) == losses, seconds=SECONDS)  # noqa: B023
            os.kill(worker.pid, signal.SIGKILL)
            assert wait_until(lambda: lost(bench, conn, deadly) == losses, seconds=SECONDS)  # noqa: B023
            bench.again(deadly)

    run = bench.run(deadly)
    assert (run["status"], run["error"]) == ("failed", "worker lost 5 times")
    start_worker()
    assert wait_until(ended(bench, *neighbours), seconds=SECONDS)
    assert {bench.run(id)["status"] for id in neighbours} == {"done"}


def lost(bench, conn, run_id):
    """Sweep, and return how many workers the run has lost."""
    recover(conn)
    return bench.run(run_id)["worker_losses"]
