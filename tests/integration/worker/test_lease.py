from contextlib import closing
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from psycopg.errors import UndefinedTable

from services.worker.lease import LeaseKeeper, LeaseLimits, Liveness
from shared.db.connection import connect
from shared.lifecycle import wait_until
from shared.queries.workers import living_workers
from tests.builders_db import LONG_AGO, row_of
from tests.integration.worker.runs import notify


@pytest.fixture
def liveness(database_url):
    with closing(
        Liveness(
            lambda: connect(database_url, application_name="liveness"),
            roles=("trigger-worker",),
            threads=4,
        )
    ) as liveness:
        yield liveness


@pytest.fixture
def keeper(bench, conn, database_url, liveness):
    return LeaseKeeper(
        lambda: connect(database_url, application_name="leases"),
        liveness=liveness,
        holdings=bench.holdings,
        limits=LeaseLimits(lease_seconds=300, renew_seconds=30),
        sweep=None,
    )


def of_this_worker(conn, liveness):
    conn.execute("UPDATE trigger_run SET worker_id = %s", [liveness.worker_id])


def test_a_worker_lives_as_long_as_its_session(conn, database_url):
    with closing(
        Liveness(lambda: connect(database_url, application_name="liveness"), roles=(), threads=1)
    ) as liveness:
        alive = living_workers(conn)

    assert liveness.worker_id in alive
    assert wait_until(lambda: living_workers(conn) == [], seconds=10)
    assert row_of(conn, "worker", liveness.worker_id)["stopped_at"] is not None


def test_a_worker_passes_over_an_id_under_which_another_lives(conn, database_url, liveness):
    conn.execute("SELECT setval('worker_id_seq', %s, false)", [liveness.worker_id])
    conn.execute("DELETE FROM worker")

    with closing(
        Liveness(lambda: connect(database_url, application_name="second"), roles=(), threads=1)
    ) as second:
        assert second.alive
        assert living_workers(conn) == [liveness.worker_id, second.worker_id]


def test_a_worker_that_lost_its_session_takes_its_lock_again(conn, liveness):
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'liveness'"
    )

    assert wait_until(liveness.check, seconds=10)
    assert living_workers(conn) == [liveness.worker_id]


def test_a_worker_is_not_alive_while_another_session_has_its_lock(conn, other_conn, liveness):
    with other_conn.transaction():
        while living_workers(conn) == [liveness.worker_id]:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'liveness'"
            )
        other_conn.execute("SELECT pg_advisory_xact_lock(728, %s)", [liveness.worker_id])
        assert not liveness.check()

    assert liveness.check()


def test_a_renewal_moves_the_lease_on_here_and_in_the_database(bench, conn, keeper, liveness):
    run_id = bench.insert(notify())
    [held] = bench.claim()
    of_this_worker(conn, liveness)
    conn.execute("UPDATE trigger_run SET leased_until = clock_timestamp()")
    held.until = 0.0

    keeper.renew(conn)

    assert held.has_time_for(280)
    assert not held.fenced
    leased_until = datetime.fromisoformat(bench.run(run_id)["leased_until"])
    assert (leased_until - datetime.now(UTC)).total_seconds() > 200


def test_a_renewal_fences_what_somebody_else_has(bench, conn, keeper, liveness):
    kept_id, lost_id = bench.insert(notify()), bench.insert(notify())
    kept, lost = sorted(bench.claim(), key=lambda held: held.work.id)
    of_this_worker(conn, liveness)
    conn.execute("UPDATE trigger_run SET lease_token = %s WHERE id = %s", [uuid4(), lost_id])

    keeper.renew(conn)

    assert kept.work.id == kept_id
    assert not kept.fenced
    assert lost.fenced
    assert not lost.has_time_for(0)


def test_a_renewal_keeps_runs_and_scheduled_actions_of_the_same_id_apart(
    bench, conn, keeper, liveness
):
    assert bench.insert(notify()) == bench.wait(notify()) == 1
    held = {one.work.work_kind: one for one in bench.claim()}
    of_this_worker(conn, liveness)
    conn.execute("UPDATE scheduled_action SET worker_id = %s", [liveness.worker_id])
    conn.execute("UPDATE trigger_run SET lease_token = %s", [uuid4()])
    for one in held.values():
        one.until = 0.0

    keeper.renew(conn)

    assert held["trigger_run"].fenced
    assert not held["scheduled_action"].fenced
    assert held["scheduled_action"].has_time_for(280)


def test_a_renewal_leaves_what_is_locked_just_now_for_the_next(
    bench, conn, other_conn, keeper, liveness
):
    locked_id = bench.insert(notify())
    [held] = bench.claim()
    of_this_worker(conn, liveness)
    held.until = 0.0

    with other_conn.transaction():
        other_conn.execute("SELECT FROM trigger_run WHERE id = %s FOR UPDATE", [locked_id])
        keeper.renew(conn)

    assert not held.fenced
    assert not held.has_time_for(0)
    keeper.renew(conn)
    assert held.has_time_for(280)


def test_a_run_that_is_held_again_is_renewed_under_its_new_lease_alone(
    bench, conn, keeper, liveness
):
    run_id = bench.insert(notify())
    [lost] = bench.claim()
    conn.execute(
        "UPDATE trigger_run SET status = 'pending', worker_id = NULL, leased_until = NULL,"
        " next_attempt_at = %(at)s, announce_at = %(at)s",
        {"at": LONG_AGO},
    )
    [again] = bench.claim()
    of_this_worker(conn, liveness)

    keeper.renew(conn)

    assert lost.work.id == again.work.id == run_id
    assert lost.fenced
    assert not again.fenced


def test_what_was_let_go_during_a_renewal_is_not_taken_for_lost(bench):
    bench.insert(notify())
    [held] = bench.claim()
    asked = bench.holdings.all()

    bench.holdings.drop(held)
    fenced = bench.holdings.renewed(asked, leases={}, until=0.0)

    assert fenced == []
    assert not held.fenced


def test_the_upkeep_outlives_what_nobody_expected_and_ends_the_worker(
    conn, database_url, liveness, bench
):
    swept = []

    def sweep(_conn):
        swept.append(1)
        if len(swept) == 1:
            raise ValueError("nobody expected that")

    keeper = LeaseKeeper(
        lambda: connect(database_url, application_name="leases"),
        liveness=liveness,
        holdings=bench.holdings,
        limits=LeaseLimits(lease_seconds=300, renew_seconds=30),
        sweep=sweep,
    )
    keeper.start()

    assert wait_until(lambda: len(swept) > 1, seconds=30)
    assert keeper.runs
    keeper.stop(seconds=30)
    assert not keeper.runs
    assert wait_until(lambda: living_workers(conn) == [], seconds=30)


def test_a_worker_that_cannot_register_leaves_no_session(conn, empty_database_url):
    with pytest.raises(UndefinedTable):
        Liveness(lambda: connect(empty_database_url, application_name="vain"), roles=(), threads=1)

    sessions = "SELECT FROM pg_stat_activity WHERE application_name = 'vain'"
    assert wait_until(lambda: conn.execute(sessions).fetchone() is None, seconds=30)
