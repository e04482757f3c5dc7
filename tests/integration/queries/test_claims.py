from datetime import timedelta
from typing import get_args
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.work import Reference, WorkKind
from shared.queries.announcements import announce_batch
from shared.queries.claims import claim, claim_actions, claim_due, claim_due_actions
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    cells_of,
    insert_run,
    insert_table,
    insert_tenant,
    row_of,
)
from tests.builders_work import insert_work, insert_works

LEASE = UUID(int=7)
LEASE_OF_3 = {"worker_id": 3, "lease_token": LEASE, "lease_seconds": 300}
HELD = {"trigger_run": "running", "scheduled_action": "processing"}


@pytest.fixture(params=get_args(WorkKind))
def kind(request):
    """Each test that takes it holds for both tables."""
    return request.param


def _reference(conn, kind, id):
    return Reference(id=id, token=cells_of(conn, kind, id, "lease_token")[0])


def _claim(conn, kind, references):
    """Claim what is referred to; return the ids."""
    if kind == "scheduled_action":
        return claim_actions(conn, references, **LEASE_OF_3)
    return [run.id for run in claim(conn, references, **LEASE_OF_3)]


def _claim_due(conn, kind, *, urgent=False, limit=10, after=None):
    """Claim what is due; return the ids."""
    asked = {"urgent": urgent, "limit": limit, "after": after} | LEASE_OF_3
    if kind == "scheduled_action":
        return claim_due_actions(conn, **asked)
    return [run.id for run in claim_due(conn, **asked)]


def test_a_claim_takes_the_row_under_a_new_lease(conn, kind):
    id = insert_work(conn, kind, attempts=1, starts=4)
    started_at = server_now(conn)

    assert _claim(conn, kind, [_reference(conn, kind, id)]) == [id]

    row = row_of(conn, kind, id)
    assert (row["status"], row["worker_id"]) == (HELD[kind], 3)
    assert (row["attempts"], row["starts"], row["lease_token"]) == (2, 5, str(LEASE))
    until, touched = cells_of(conn, kind, id, "leased_until", "updated_at")
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

    (run,) = claim(conn, [_reference(conn, "trigger_run", run_id)], **LEASE_OF_3)

    assert {name: getattr(run, name) for name in columns} == columns
    assert (run.snapshot, run.action_results) == ({"c1": "a"}, [{"ok": True}])
    assert (run.tenant_id, run.table_id, run.table_lives) == (table.tenant_id, table.id, True)
    assert len(run.definition_hash) == 32


@pytest.mark.parametrize("by_reference", [True, False])
def test_a_claim_says_that_the_table_is_trashed(conn, by_reference):
    run_id = insert_run(conn, insert_table(conn, trashed_at=LONG_AGO))

    if by_reference:
        (run,) = claim(conn, [_reference(conn, "trigger_run", run_id)], **LEASE_OF_3)
    else:
        (run,) = claim_due(conn, urgent=False, limit=1, after=None, **LEASE_OF_3)

    assert run.table_lives is False


def test_a_reference_with_another_token_is_refused(conn, kind):
    id = insert_work(conn, kind)

    assert _claim(conn, kind, [Reference(id=id, token=uuid4())]) == []
    assert row_of(conn, kind, id)["status"] == "pending"


def test_a_redelivered_reference_is_refused(conn, kind):
    reference = _reference(conn, kind, insert_work(conn, kind))

    assert len(_claim(conn, kind, [reference])) == 1
    assert _claim(conn, kind, [reference]) == []


def test_a_reference_that_stands_twice_is_claimed_once(conn, kind):
    reference = _reference(conn, kind, insert_work(conn, kind))

    assert len(_claim(conn, kind, [reference, reference])) == 1


def test_a_row_that_waits_for_its_next_attempt_is_refused(conn, kind):
    id = insert_work(conn, kind, next_attempt_at=FAR_OFF)

    assert _claim(conn, kind, [_reference(conn, kind, id)]) == []


@pytest.mark.parametrize("status", ["held", "done", "failed"])
def test_what_is_not_pending_is_refused(conn, kind, status):
    id = insert_work(conn, kind, status=status)

    assert _claim(conn, kind, [_reference(conn, kind, id)]) == []
    assert _claim_due(conn, kind) == []


def test_a_reference_to_a_row_that_is_gone_is_refused(conn, kind):
    assert _claim(conn, kind, [Reference(id=404, token=LEASE)]) == []


def test_two_workers_never_claim_the_same_row(conn, other_conn, kind):
    ids = insert_works(conn, kind, count=3)
    references = [_reference(conn, kind, id) for id in ids]

    with conn.transaction():
        first = _claim(conn, kind, references[:2])
        second = _claim(other_conn, kind, references)

    assert (sorted(first), second) == (ids[:2], ids[2:])


def test_a_claim_that_is_rolled_back_leaves_the_row_to_others(conn, other_conn, kind):
    reference = _reference(conn, kind, insert_work(conn, kind))

    with conn.transaction(force_rollback=True):
        assert len(_claim(conn, kind, [reference])) == 1

    assert len(_claim(other_conn, kind, [reference])) == 1


def test_due_rows_are_claimed_oldest_first_and_never_shared(conn, other_conn, kind):
    tenant_id = insert_tenant(conn)
    days = [
        insert_work(conn, kind, tenant_id=tenant_id, announce_at=LONG_AGO + timedelta(days=day))
        for day in range(4)
    ]

    with conn.transaction():
        first = _claim_due(conn, kind, limit=2)
        second = _claim_due(other_conn, kind, limit=10)

    assert set(first) == set(days[:2])
    assert set(second) == set(days[2:])


@pytest.mark.parametrize("after", [None, LEASE])
def test_what_is_urgent_and_what_is_not_are_claimed_apart(conn, kind, after):
    late, soon = insert_work(conn, kind), insert_work(conn, kind, urgent=True)

    assert _claim_due(conn, kind, urgent=True, after=after) == [soon]
    assert _claim_due(conn, kind, after=after) == [late]


def test_no_more_rows_are_claimed_than_asked_for(conn, kind):
    insert_works(conn, kind, count=50)

    assert len(_claim_due(conn, kind, limit=7)) == 7
    assert len(_claim_due(conn, kind, limit=7, after=LEASE)) == 7


def test_an_announced_row_is_not_due_before_its_announcement_is_old(conn, kind):
    insert_work(conn, kind)
    announce_batch(conn, kind=kind, urgent=False, limit=1)

    assert _claim_due(conn, kind) == []


def test_a_fair_claim_serves_a_small_tenant_beside_a_flood(conn, kind):
    insert_works(conn, kind, count=100)
    small = insert_work(conn, kind, announce_at=LONG_AGO + timedelta(days=1))

    claimed = _claim_due(conn, kind, after=LEASE)

    assert small in claimed
    assert len(claimed) == 10


@pytest.mark.parametrize("after", [None, LEASE])
def test_a_row_that_lost_its_worker_is_claimed_alone(conn, kind, after):
    days = {
        day: insert_work(
            conn,
            kind,
            worker_losses=losses,
            announce_at=LONG_AGO + timedelta(days=day),
        )
        for day, losses in enumerate((0, 1, 0))
    }

    batches = [sorted(_claim_due(conn, kind, after=after)) for _ in range(3)]

    assert batches == [[days[0], days[2]], [days[1]], []]
