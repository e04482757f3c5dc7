"""Processes are killed and told to stop, the broker goes away: nothing is lost, nothing doubled."""

import os
import signal
import threading

import pytest

from tests.e2e.flood import Flood
from tests.e2e.installation import Workspace

_OPEN = "SELECT count(*) FROM trigger_run WHERE status IN ('pending', 'running')"


def kill(child):
    os.kill(child.pid, signal.SIGKILL)


def end(installation, child):
    """Tell a process to stop and return its exit status."""
    os.kill(child.pid, signal.SIGTERM)
    return installation.status_of(child)


@pytest.fixture
def installation(install, amqp_url):
    installation = install(amqp_url)
    installation.start("api")
    installation.wait(installation.answers)
    return installation


def test_killed_processes_are_survived_and_their_work_is_done_once(installation, conn, receiver):
    flood = Flood(installation, Workspace(installation), conn, receiver)
    workers = [installation.start("worker") for _ in range(2)]
    scanners = [installation.start("scanner") for _ in range(2)]

    flood.wait_until_done(0.2)
    kill(workers[0])
    kill(scanners[0])
    installation.start("worker")
    flood.wait_until_done(0.5)
    kill(scanners[1])
    installation.start("scanner")
    kill(workers[1])

    doubled_calls = flood.assert_each_happened_once()
    assert flood.count("SELECT count(*) FROM trigger_run WHERE worker_losses > 0") > 0
    # Two workers died, each with at most its threads in a call.
    assert doubled_calls <= 2 * int(installation.environment["WORKER_THREADS"])


def test_processes_told_to_stop_drain_and_double_nothing(installation, conn, receiver):
    flood = Flood(installation, Workspace(installation), conn, receiver)
    scanner, worker = installation.start("scanner"), installation.start("worker")

    flood.wait_until_done(0.2)
    assert end(installation, worker) == 0
    assert end(installation, scanner) == 0
    installation.start("scanner")
    installation.start("worker")

    assert flood.assert_each_happened_once() == 0
    losses = "SELECT coalesce(max(worker_losses), 0) FROM trigger_run"
    assert flood.count(losses) == 0


def test_a_broker_that_goes_away_and_comes_back_loses_nothing(
    install, restartable_rabbit, conn, receiver
):
    node, url = restartable_rabbit
    installation = install(url, ACTION_DEADLINE_SECONDS="30", GRACE_SECONDS="45")
    installation.start("api")
    installation.wait(installation.answers)
    flood = Flood(installation, Workspace(installation), conn, receiver)
    receiver.let_go = threading.Event()
    for service in ("scanner", "worker", "worker"):
        installation.start(service)

    # Every thread is in a call when the broker goes, so that most of the flood is yet to come.
    threads = 2 * int(installation.environment["WORKER_THREADS"])
    installation.wait(lambda: len(receiver.requests) == threads)
    node.stop()
    receiver.let_go.set()
    flood.wait_until_done(threads / flood.expected)
    assert flood.count(_OPEN) > flood.expected / 2
    node.start()

    assert flood.assert_each_happened_once() == 0
    assert flood.count("SELECT max(attempts) FROM trigger_run") == 1
