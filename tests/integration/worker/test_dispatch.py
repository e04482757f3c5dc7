import threading

import pytest

from services.worker.dispatch import Dispatcher
from shared.db.connection import connect
from shared.lifecycle import wait_until
from shared.messaging.postgres_transport import PostgresConsumer
from shared.queries.notifications import listen_for_work
from tests.builders_db import insert_runs
from tests.integration.worker.runs import notify


class Held:
    """Keeps runs from being executed until it is told to let them go.

    ``begun`` are their ids, ``alone`` those that nothing else was in flight with at their begin.
    """

    def __init__(self, bench):
        self._bench = bench
        self._in_flight = set()
        self.begun, self.alone = [], set()
        self.let_go = threading.Event()

    def __call__(self, held):
        if not self._in_flight:
            self.alone.add(held.work.id)
        self._in_flight.add(held.work.id)
        self.begun.append(held.work.id)
        self.let_go.wait(60)
        self._bench.executor.execute(held)
        self._in_flight.remove(held.work.id)


class FailingOnce:
    """A consumer that fails in a way that nobody expected, and then works."""

    def __init__(self, consumer):
        self._consumer = consumer
        self._failures = [ValueError("nobody expected that")]
        self.stop = consumer.stop

    def receive(self, *, free, timeout):
        if self._failures:
            raise self._failures.pop()
        return self._consumer.receive(free=free, timeout=timeout)


class SlowToReturn:
    """A consumer that returns what it has claimed only when it is stopped."""

    def __init__(self, consumer):
        self._consumer = consumer
        self.claimed, self._stopping = threading.Event(), threading.Event()

    def receive(self, *, free, timeout):
        received = self._consumer.receive(free=free, timeout=timeout)
        self.claimed.set()
        self._stopping.wait(60)
        return received

    def stop(self):
        self._stopping.set()
        self._consumer.stop()


@pytest.fixture
def consumer(bench, database_url):
    def open_session():
        session = connect(database_url, application_name="listener")
        listen_for_work(session)
        return session

    return PostgresConsumer(open_session, claimer=bench.claimer)


@pytest.fixture
def make_dispatcher(bench, consumer):
    made = []

    def make(*, execute=None, consumer=consumer, threads=2, may_begin=lambda: True):
        dispatcher = Dispatcher(
            consumer=consumer,
            execute=execute or bench.executor.execute,
            holdings=bench.holdings,
            committer=bench.committer,
            threads=threads,
            may_begin=may_begin,
        )
        made.append(dispatcher)
        dispatcher.start()
        return dispatcher

    yield make
    for dispatcher in made:
        dispatcher.drain(seconds=30)


def statuses(conn):
    rows = conn.execute("SELECT status, attempts, count(*) FROM trigger_run GROUP BY 1, 2")
    return {(status, attempts): count for status, attempts, count in rows}


def test_what_comes_due_is_executed_by_all_threads(bench, conn, make_dispatcher):
    for number in range(20):
        bench.insert(notify(f"{number}"))

    make_dispatcher()

    assert wait_until(lambda: statuses(conn) == {("done", 1): 20}, seconds=30)


def test_a_drain_hands_back_at_once_what_waits_for_a_thread(bench, conn, make_dispatcher):
    for _ in range(4):
        bench.insert(notify())
    execute = Held(bench)
    dispatcher = make_dispatcher(execute=execute, threads=2)
    assert wait_until(lambda: len(execute.begun) == 2, seconds=30)
    claimed = statuses(conn)

    ended = dispatcher.drain(seconds=0)
    bench.flush()

    assert claimed == {("running", 1): 4}
    assert not ended
    assert statuses(conn) == {("running", 1): 2, ("pending", 0): 2}
    execute.let_go.set()
    assert dispatcher.drain(seconds=30)
    bench.flush()
    assert statuses(conn) == {("done", 1): 2, ("pending", 0): 2}


def test_a_drained_dispatcher_claims_nothing_more(bench, conn, make_dispatcher):
    dispatcher = make_dispatcher()

    assert dispatcher.drain(seconds=30)
    insert_runs(conn, count=3)
    conn.execute("NOTIFY duebook_work")

    assert not dispatcher.runs
    assert statuses(conn) == {("pending", 0): 3}


def test_a_claim_under_way_when_the_drain_begins_is_handed_back(
    bench, conn, consumer, make_dispatcher
):
    bench.insert(notify())
    slow = SlowToReturn(consumer)
    execute = Held(bench)
    dispatcher = make_dispatcher(execute=execute, consumer=slow)
    assert slow.claimed.wait(30)
    claimed = statuses(conn)

    assert dispatcher.drain(seconds=30)
    bench.flush()

    assert claimed == {("running", 1): 1}
    assert statuses(conn) == {("pending", 0): 1}
    assert execute.begun == []


def test_a_run_that_lost_two_workers_is_executed_alone(bench, conn, make_dispatcher):
    ids = [bench.insert(notify(), worker_losses=losses) for losses in (0, 1, 2, 2, 0)]
    execute = Held(bench)
    make_dispatcher(execute=execute, threads=4)
    assert wait_until(lambda: statuses(conn) == {("running", 1): 4, ("pending", 0): 1}, seconds=30)
    begun = set(execute.begun)

    execute.let_go.set()

    assert wait_until(lambda: statuses(conn) == {("done", 1): 5}, seconds=30)
    assert begun == {ids[0], ids[1], ids[4]}
    assert {ids[2], ids[3]} <= execute.alone


def test_a_drain_does_not_wait_for_a_run_that_waits_to_be_alone(bench, conn, make_dispatcher):
    bench.insert(notify())
    bench.insert(notify(), worker_losses=2)
    execute = Held(bench)
    dispatcher = make_dispatcher(execute=execute)
    assert wait_until(lambda: statuses(conn) == {("running", 1): 2}, seconds=30)

    execute.let_go.set()
    assert dispatcher.drain(seconds=30)
    bench.flush()

    assert set(statuses(conn)) <= {("done", 1), ("pending", 0)}


def test_a_failure_that_nobody_expected_does_not_end_the_intake(
    bench, conn, consumer, make_dispatcher
):
    bench.insert(notify())

    dispatcher = make_dispatcher(consumer=FailingOnce(consumer))

    assert wait_until(lambda: statuses(conn) == {("done", 1): 1}, seconds=30)
    assert dispatcher.runs


def test_while_the_worker_may_not_begin_it_claims_nothing(bench, conn, make_dispatcher):
    bench.insert(notify())
    asked, free = threading.Event(), threading.Event()

    def may_begin():
        asked.set()
        return free.is_set()

    make_dispatcher(may_begin=may_begin)

    assert asked.wait(30)
    assert statuses(conn) == {("pending", 0): 1}
    free.set()
    assert wait_until(lambda: statuses(conn) == {("done", 1): 1}, seconds=30)
