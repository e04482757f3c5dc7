from concurrent.futures import wait

import pytest

from services.worker.committer import Committer
from services.worker.steps import Finish, HandBack, Intent, Postpone, Save
from shared.db.connection import connect
from shared.domain.runs import receipt
from shared.observability import metrics
from tests.builders_db import LONG_AGO
from tests.integration.worker.runs import notify


def ok_receipt():
    return receipt(
        "notify",
        ok=True,
        detail=None,
        attempts=1,
        started_at=LONG_AGO,
        finished_at=LONG_AGO,
        result={},
    )


def a_finish(run, **changes):
    values = {"work": run, "receipts": [ok_receipt()], "status": "done", "error": None}
    return Finish(**values | changes)


def claimed(bench, count):
    ids = [bench.insert(notify()) for _ in range(count)]
    return ids, [held.work for held in bench.claim()]


def cut(conn, application_name):
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
        [application_name],
    )


def test_steps_of_many_runs_are_written_and_answered_one_by_one(bench, conn):
    ids, runs = claimed(bench, 5)
    conn.execute("UPDATE trigger_run SET lease_token = gen_random_uuid() WHERE id = %s", [ids[4]])
    steps = [
        a_finish(runs[0]),
        Intent(work=runs[1], position=0),
        Save(work=runs[2], receipts=[ok_receipt()], is_ok=True),
        Postpone(work=runs[3], receipts=[], delay_seconds=60, action_type="notify"),
        HandBack(work=runs[4]),
    ]

    written = [bench.committer.submit(step).result() for step in steps]

    assert written == [True, True, True, True, False]
    states = [bench.run(id)["status"] for id in ids]
    assert states == ["done", "running", "running", "pending", "running"]


def test_a_lost_session_costs_no_step(bench, conn):
    _, runs = claimed(bench, 20)
    bench.committer.submit(a_finish(runs[0])).result()

    cut(conn, "committer")
    written = [bench.committer.submit(a_finish(run)) for run in runs[1:]]

    assert all(future.result() for future in written)
    assert conn.execute("SELECT DISTINCT status FROM trigger_run").fetchall() == [("done",)]


def test_a_step_that_cannot_be_written_leaves_its_group_alone(bench):
    ids, runs = claimed(bench, 3)
    poisoned = a_finish(runs[1], status="failed", error="x" * 2000)

    futures = [
        bench.committer.submit(step) for step in (a_finish(runs[0]), poisoned, a_finish(runs[2]))
    ]
    wait(futures)

    assert [future.result() for future in futures] == [True, False, True]
    assert [bench.run(id)["status"] for id in ids] == ["done", "running", "done"]


def test_a_locked_row_holds_up_no_other_step(bench, conn, database_url, other_conn):
    ids, runs = claimed(bench, 3)
    committer = Committer(lambda: connect(database_url, application_name="c", lock_seconds=1))
    committer.start()

    with other_conn.transaction():
        other_conn.execute("SELECT FROM trigger_run WHERE id = %s FOR UPDATE", [ids[1]])
        futures = [committer.submit(a_finish(run)) for run in runs]
        assert futures[0].result()
        assert futures[2].result()
        assert not futures[1].done()

    assert futures[1].result()
    assert {bench.run(id)["status"] for id in ids} == {"done"}
    committer.close(seconds=10)


def test_a_server_that_takes_no_writes_just_now_costs_no_step(bench, database_url):
    [run_id], [run] = claimed(bench, 1)
    modes = iter(["on", "off"])

    def open_session():
        session = connect(database_url, application_name="committer")
        session.execute(f"SET default_transaction_read_only = {next(modes)}")
        return session

    committer = Committer(open_session)
    committer.start()

    assert committer.submit(a_finish(run)).result()
    assert bench.run(run_id)["status"] == "done"
    committer.close(seconds=10)


def test_after_its_end_a_step_is_refused_at_once(bench, database_url):
    _, [run] = claimed(bench, 1)
    committer = Committer(lambda: connect(database_url, application_name="closed"))
    committer.start()
    committer.close(seconds=10)

    assert committer.submit(a_finish(run)).result() is False
    assert not committer.runs


def test_an_end_that_comes_too_late_is_told(bench, conn):
    _, [run] = claimed(bench, 1)
    conn.execute("UPDATE trigger_run SET lease_token = gen_random_uuid()")
    before = metrics.LEASES_LOST._value.get()

    assert bench.committer.submit(a_finish(run)).result() is False

    assert metrics.LEASES_LOST._value.get() == before + 1


def test_ends_are_counted_by_what_they_are(bench):
    _, runs = claimed(bench, 3)

    def counted():
        statuses = ("done", "failed", "postponed")
        return [
            metrics.WORK_OUTCOMES.labels("trigger_run", status)._value.get() for status in statuses
        ]

    before = counted()
    steps = [
        a_finish(runs[0]),
        a_finish(runs[1], status="failed", error="no"),
        Postpone(work=runs[2], receipts=[], delay_seconds=60, action_type="notify"),
    ]
    for step in steps:
        bench.committer.submit(step).result()

    assert counted() == [count + 1 for count in before]


def test_two_steps_of_one_run_are_never_in_one_group(bench):
    [run_id], [run] = claimed(bench, 1)

    futures = [
        bench.committer.submit(Intent(work=run, position=0)),
        bench.committer.submit(Save(work=run, receipts=[ok_receipt()], is_ok=True)),
        bench.committer.submit(a_finish(run)),
    ]

    assert [future.result() for future in futures] == [True, True, True]
    assert bench.run(run_id)["status"] == "done"


def test_a_run_and_a_scheduled_action_of_the_same_id_are_two(bench):
    assert bench.insert(notify()) == bench.wait(notify()) == 1
    held = [one.work for one in bench.claim()]

    futures = [bench.committer.submit(a_finish(work)) for work in held]

    assert [future.result() for future in futures] == [True, True]
    assert (bench.run(1)["status"], bench.action(1)["status"]) == ("done", "done")


def test_closing_writes_what_was_submitted(bench, database_url):
    [run_id], [run] = claimed(bench, 1)
    committer = Committer(lambda: connect(database_url, application_name="closing"))
    written = committer.submit(a_finish(run))

    committer.start()
    committer.close(seconds=10)

    assert written.result() is True
    assert bench.run(run_id)["status"] == "done"


@pytest.mark.parametrize("url", ["postgresql://duebook@127.0.0.1:9/none"])
def test_closing_gives_up_on_a_database_that_stays_away(bench, url):
    [run_id], [run] = claimed(bench, 1)
    committer = Committer(lambda: connect(url, application_name="away"))
    committer.start()
    written = committer.submit(a_finish(run))

    committer.close(seconds=0.2)

    assert written.result() is False
    assert bench.run(run_id)["status"] == "running"


def test_what_nobody_waits_for_goes_with_what_somebody_does(bench, monkeypatch):
    monkeypatch.setattr("services.worker.committer._QUIET_AGE_SECONDS", 3600)
    ids, runs = claimed(bench, 3)

    quiet = [bench.committer.submit(a_finish(run), awaited=False) for run in runs[:2]]
    assert not wait(quiet, timeout=0.1).done
    assert bench.committer.submit(a_finish(runs[2])).result(30)

    assert all(future.result(30) for future in quiet)
    assert {bench.run(id)["status"] for id in ids} == {"done"}


def test_what_nobody_waits_for_is_written_by_its_age_and_before_the_end(bench, monkeypatch):
    ids, runs = claimed(bench, 2)

    by_age = bench.committer.submit(a_finish(runs[0]), awaited=False)
    assert by_age.result(30)
    monkeypatch.setattr("services.worker.committer._QUIET_AGE_SECONDS", 3600)
    bench.committer.submit(a_finish(runs[1]), awaited=False)
    bench.committer.close(seconds=30)

    assert {bench.run(id)["status"] for id in ids} == {"done"}
