from datetime import timedelta

from shared.queries.workers import (
    count_threads,
    delete_old_workers,
    hold_liveness,
    living_workers,
    register_worker,
    stop_worker,
)
from tests.builders_db import LONG_AGO, NOW, insert_run, insert_worker, row_of


def test_every_start_registers_a_new_worker(conn):
    start = {"host": "a", "release": "1", "roles": ("trigger-worker",), "threads": 4, "now": NOW}

    first, second = register_worker(conn, **start), register_worker(conn, **start)

    assert first != second
    assert row_of(conn, "worker", first)["roles"] == ["trigger-worker"]


def test_a_worker_lives_as_long_as_the_session_that_holds_its_lock(conn, other_conn):
    worker_id = insert_worker(conn)

    assert hold_liveness(other_conn, worker_id)
    assert living_workers(conn) == [worker_id]

    other_conn.execute("SELECT pg_advisory_unlock_all()")
    assert living_workers(conn) == []


def test_two_sessions_cannot_both_be_the_worker(conn, other_conn):
    worker_id = insert_worker(conn)

    assert hold_liveness(conn, worker_id)
    assert not hold_liveness(other_conn, worker_id)


def test_other_advisory_locks_are_no_workers(conn, other_conn):
    other_conn.execute(
        "SELECT pg_advisory_lock(727, 1), pg_advisory_lock(728), pg_advisory_lock(5)"
    )

    assert living_workers(conn) == []


def test_the_threads_of_workers_are_added_up(conn):
    both, one = ["trigger-worker", "action-worker"], ["trigger-worker"]
    workers = [
        insert_worker(conn, threads=threads, roles=roles)
        for threads, roles in ((2, both), (3, one))
    ]
    insert_worker(conn, threads=50)

    assert count_threads(conn, workers) == {"trigger-worker": 5, "action-worker": 2}
    assert count_threads(conn, []) == {}


def test_a_stopped_worker_says_when(conn):
    worker_id = insert_worker(conn)

    stop_worker(conn, worker_id, now=NOW)
    stop_worker(conn, worker_id, now=NOW + timedelta(days=1))

    assert row_of(conn, "worker", worker_id)["stopped_at"].startswith("2026-07-25T09:00")


def test_old_workers_go_unless_they_live_or_hold_something(conn):
    gone, living, holding = (insert_worker(conn) for _ in range(3))
    young = insert_worker(conn, started_at=NOW)
    insert_run(conn, status="running", worker_id=holding)

    assert delete_old_workers(conn, before=NOW, living=[living], limit=10) == 1

    left = {id for (id,) in conn.execute("SELECT id FROM worker")}
    assert left == {living, holding, young}
    assert gone not in left


def test_old_workers_go_in_small_batches(conn):
    for _ in range(3):
        insert_worker(conn, started_at=LONG_AGO)

    assert delete_old_workers(conn, before=NOW, living=[], limit=2) == 2
