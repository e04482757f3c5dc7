"""The database did what it was asked, and its answer was lost; or it went away in between."""

import threading

import psycopg
import pytest

from services.worker.committer import Committer
from services.worker.steps import Finish
from shared.db.connection import connect
from shared.lifecycle import wait_until
from shared.observability import metrics
from tests.integration.worker.runs import api_call, notify

UPDATE = {"type": "update_record", "target": "$row", "data": {"title": "mended"}}


@pytest.fixture
def far_bench(make_bench, proxy):
    """A worker whose every answer can be lost."""
    return make_bench(url=proxy.url)


def counts(run):
    return run["status"], run["attempts"], run["starts"], run["worker_losses"]


def lose_session_of(bench, conn, held):
    """Execute a run whose session is ended while its action waits for a lock."""
    with conn.transaction():
        conn.execute("SELECT FROM record FOR UPDATE")
        executing = threading.Thread(target=bench.executor.execute, args=[held])
        executing.start()
        assert wait_until(lambda: end_who_waits(conn), seconds=30)
        executing.join()
    bench.flush()


def end_who_waits(conn):
    """End the worker's sessions that wait for a lock, and return them."""
    return conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'worker' AND wait_event_type = 'Lock'"
    ).fetchall()


def versions(conn):
    return [version for (version,) in conn.execute("SELECT version FROM record ORDER BY id")]


def test_an_internal_effect_whose_commit_was_not_answered_is_not_repeated(far_bench, proxy, conn):
    run_id = far_bench.insert(UPDATE, notify("after"))
    [held] = far_bench.claim()

    lost = proxy.lose_answer_to(b"COMMIT")
    far_bench.executor.execute(held)
    far_bench.flush()

    assert lost.wait(30)
    run = far_bench.run(run_id)
    assert counts(run) == ("pending", 1, 1, 0)
    assert [receipt["ok"] for receipt in run["action_results"]] == [True]
    far_bench.again(run_id)
    far_bench.execute()
    assert counts(far_bench.run(run_id)) == ("done", 2, 2, 0)
    assert versions(conn) == [2]
    assert far_bench.messages() == ["after"]


def test_a_run_whose_last_commit_was_not_answered_stays_done(far_bench, proxy, conn):
    run_id = far_bench.insert(UPDATE)
    [held] = far_bench.claim()
    before = metrics.LEASES_LOST._value.get()

    lost = proxy.lose_answer_to(b"COMMIT")
    far_bench.executor.execute(held)
    far_bench.committer.close(seconds=30)

    assert lost.wait(30)
    assert counts(far_bench.run(run_id)) == ("done", 1, 1, 0)
    assert versions(conn) == [2]
    assert metrics.LEASES_LOST._value.get() == before


def test_an_internal_action_whose_session_is_lost_before_its_commit_runs_again(bench, conn):
    run_id = bench.insert(UPDATE)
    [held] = bench.claim()

    lose_session_of(bench, conn, held)

    assert counts(bench.run(run_id)) == ("pending", 1, 1, 0)
    bench.again(run_id)
    bench.execute()
    assert counts(bench.run(run_id)) == ("done", 2, 2, 0)
    assert versions(conn) == [2]


def test_an_internal_action_that_loses_its_session_every_time_fails_in_the_end(bench, conn):
    run_id = bench.insert(UPDATE, attempts=3)
    [held] = bench.claim()

    lose_session_of(bench, conn, held)

    run = bench.run(run_id)
    assert counts(run) == ("failed", 4, 1, 0)
    assert run["error"].startswith("action 1 (update_record): ")


def test_an_end_whose_commit_was_not_answered_is_no_fence(bench, proxy):
    run_id = bench.insert(notify())
    [held] = bench.claim()
    before = metrics.LEASES_LOST._value.get()
    committer = Committer(lambda: connect(proxy.url, application_name="far"))

    lost = proxy.lose_answer_to(b"COMMIT")
    committer.start()
    written = committer.submit(Finish(work=held.work, receipts=[], status="done", error=None))

    assert written.result() is False
    assert lost.is_set()
    assert counts(bench.run(run_id)) == ("done", 1, 1, 0)
    assert metrics.LEASES_LOST._value.get() == before
    committer.close(seconds=5)


def test_what_a_claim_took_whose_answer_was_lost_is_given_back(far_bench, proxy):
    run_id = far_bench.insert(notify())

    lost = proxy.lose_answer_to(b"SET status = 'running'")
    with pytest.raises(psycopg.OperationalError):
        far_bench.claimer.claim_due(kind="trigger_run", urgent=False, limit=10, fairly=False)

    assert lost.wait(30)
    assert counts(far_bench.run(run_id)) == ("running", 1, 1, 0)
    far_bench.execute()
    assert counts(far_bench.run(run_id)) == ("done", 1, 2, 0)


@pytest.mark.parametrize(
    "asked", [b"SET status = 'processing'", b"SET branch = CASE", b"AS execution_context"]
)
def test_what_a_claim_of_actions_took_is_given_back_wherever_it_was_cut(far_bench, proxy, asked):
    action_id = far_bench.wait(notify())

    lost = proxy.lose_answer_to(asked)
    with pytest.raises(psycopg.OperationalError):
        far_bench.claimer.claim_due(kind="scheduled_action", urgent=False, limit=10, fairly=False)

    assert lost.wait(30)
    assert counts(far_bench.action(action_id)) == ("processing", 1, 1, 0)
    far_bench.execute()
    assert counts(far_bench.action(action_id)) == ("done", 1, 2, 0)


def test_a_call_does_not_begin_when_its_intent_had_to_wait_for_too_long(bench, receiver):
    run_id = bench.insert(api_call(receiver.url, on_unknown="fail"))
    [held] = bench.claim()
    answers = iter([True, False])

    bench.may_begin = lambda: next(answers)
    bench.executor.execute(held)
    bench.flush()

    run = bench.run(run_id)
    assert receiver.requests == []
    assert counts(run) == ("pending", 0, 1, 0)
    assert run["open_action"] is None
    bench.may_begin = lambda: True
    bench.execute()
    assert len(receiver.requests) == 1
    assert counts(bench.run(run_id)) == ("done", 1, 2, 0)
