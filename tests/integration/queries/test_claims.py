from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.queries.announcements import announce_batch
from shared.queries.claims import claim, claim_due
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    insert_run,
    insert_runs,
    insert_table,
    row_of,
)

LEASE = UUID(int=7)


def _reference(conn, run_id):
    token = conn.execute("SELECT lease_token FROM trigger_run WHERE id = %s", [run_id]).fetchone()
    return Reference(id=run_id, token=token[0])


def _claim(conn, references, **more):
    settings = {"worker_id": 3, "lease_token": LEASE, "lease_seconds": 300} | more
    return claim(conn, references, **settings)


def _claim_due(conn, **more):
    settings = {"urgent": False, "limit": 10, "after": None, "worker_id": 3} | more
    return claim_due(conn, lease_token=LEASE, lease_seconds=300, **settings)


def test_a_claim_takes_the_run_under_a_new_lease(conn):
    run_id = insert_run(conn, attempts=1, starts=4)
    started_at = server_now(conn)

    (run,) = _claim(conn, [_reference(conn, run_id)])

    assert (run.id, run.lease_token, run.attempts, run.starts) == (run_id, LEASE, 2, 5)
    row = row_of(conn, "trigger_run", run_id)
    assert (row["status"], row["worker_id"]) == ("running", 3)
    until, touched = conn.execute("SELECT leased_until, updated_at FROM trigger_run").fetchone()
    assert timedelta(seconds=300) <= until - started_at <= timedelta(seconds=310)
    assert touched >= started_at


def test_a_claim_carries_all_that_executing_needs(conn):
    table = insert_table(conn)
    columns = {
        "kind": "date_column_reached",
        "record_id": 12,
        "identity": "2026-07-25",
        "window_key": "20260725",
        "depth": 3,
        "worker_losses": 1,
        "open_action": 1,
    }
    documents = {"snapshot": Jsonb({"c1": "a"}), "action_results": Jsonb([{"ok": True}])}
    run_id = insert_run(conn, table, **columns, **documents)

    (run,) = _claim(conn, [_reference(conn, run_id)])

    assert {name: getattr(run, name) for name in columns} == columns
    assert (run.snapshot, run.action_results) == ({"c1": "a"}, [{"ok": True}])
    assert (run.tenant_id, run.table_id, run.table_lives) == (table.tenant_id, table.id, True)
    assert len(run.definition_hash) == 32


@pytest.mark.parametrize("taker", [_claim, _claim_due])
def test_a_claim_says_that_the_table_is_trashed(conn, taker):
    run_id = insert_run(conn, insert_table(conn, trashed_at=LONG_AGO))

    (run,) = _claim_due(conn) if taker is _claim_due else _claim(conn, [_reference(conn, run_id)])

    assert run.table_lives is False


def test_a_reference_with_another_token_is_refused(conn):
    run_id = insert_run(conn)

    assert _claim(conn, [Reference(id=run_id, token=uuid4())]) == []
    assert row_of(conn, "trigger_run", run_id)["status"] == "pending"


def test_a_redelivered_reference_is_refused(conn):
    reference = _reference(conn, insert_run(conn))

    assert len(_claim(conn, [reference])) == 1
    assert _claim(conn, [reference]) == []


def test_a_reference_that_stands_twice_is_claimed_once(conn):
    reference = _reference(conn, insert_run(conn))

    assert len(_claim(conn, [reference, reference])) == 1


def test_a_run_that_waits_for_its_next_attempt_is_refused(conn):
    run_id = insert_run(conn, next_attempt_at=FAR_OFF)

    assert _claim(conn, [_reference(conn, run_id)]) == []


@pytest.mark.parametrize("status", ["running", "done", "failed"])
def test_what_is_not_pending_is_refused(conn, status):
    run_id = insert_run(conn, status=status)

    assert _claim(conn, [_reference(conn, run_id)]) == []
    assert _claim_due(conn) == []


def test_a_reference_to_a_run_that_is_gone_is_refused(conn):
    assert _claim(conn, [Reference(id=404, token=LEASE)]) == []


def test_two_workers_never_claim_the_same_run(conn, other_conn):
    references = [_reference(conn, run_id) for run_id in insert_runs(conn, count=3)]

    with conn.transaction():
        first = _claim(conn, references[:2])
        second = _claim(other_conn, references)

    assert [run.id for run in first] == [reference.id for reference in references[:2]]
    assert [run.id for run in second] == [references[2].id]


def test_a_claim_that_is_rolled_back_leaves_the_run_to_others(conn, other_conn):
    reference = _reference(conn, insert_run(conn))

    with conn.transaction(force_rollback=True):
        assert len(_claim(conn, [reference])) == 1

    assert len(_claim(other_conn, [reference])) == 1


def test_due_runs_are_claimed_oldest_first_and_never_shared(conn, other_conn):
    table = insert_table(conn)
    days = [insert_run(conn, table, announce_at=LONG_AGO + timedelta(days=day)) for day in range(4)]

    with conn.transaction():
        first = _claim_due(conn, limit=2)
        second = _claim_due(other_conn, limit=10)

    assert {run.id for run in first} == set(days[:2])
    assert {run.id for run in second} == set(days[2:])


def test_no_more_runs_are_claimed_than_asked_for(conn):
    insert_runs(conn, count=50)

    assert len(_claim_due(conn, limit=7)) == 7
    assert len(_claim_due(conn, limit=7, after=LEASE)) == 7


def test_an_announced_run_is_not_due_before_its_announcement_is_old(conn):
    insert_run(conn)
    announce_batch(conn, urgent=False, limit=1)

    assert _claim_due(conn) == []


def test_a_fair_claim_serves_a_small_tenant_beside_a_flood(conn):
    insert_runs(conn, count=100)
    small = insert_run(conn, announce_at=LONG_AGO + timedelta(days=1))

    claimed = _claim_due(conn, after=LEASE)

    assert small in {run.id for run in claimed}
    assert len(claimed) == 10


@pytest.mark.parametrize("after", [None, LEASE])
def test_a_run_that_lost_its_worker_is_claimed_alone(conn, after):
    table = insert_table(conn)
    first = insert_run(conn, table)
    lost = insert_run(conn, table, worker_losses=1, announce_at=LONG_AGO + timedelta(days=1))
    last = insert_run(conn, table, announce_at=LONG_AGO + timedelta(days=2))

    batches = [[run.id for run in _claim_due(conn, after=after)] for _ in range(3)]

    assert [sorted(batch) for batch in batches] == [[first, last], [lost], []]
