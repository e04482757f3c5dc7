from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.errors import Conflict, NotFound
from shared.lifecycle import wait_until
from shared.queries.claims import claim
from shared.queries.run_lists import (
    RunFilter,
    count_failed,
    count_stale,
    get_run,
    list_run_ids,
    list_runs,
)
from shared.queries.trigger_runs import cancel, cancel_matching, delete_finished, delete_run, rearm
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    NOW,
    insert_run,
    insert_runs,
    insert_state,
    insert_table,
    row_of,
    trigger_id,
)
from tests.integration.usecases.world import waits_for_a_lock


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _ids(conn, table, *, before=None, limit=100, now=NOW, **filter):
    return list_run_ids(conn, table, RunFilter(**filter), before=before, limit=limit, now=now)


def test_a_failed_run_is_armed_again_with_a_fresh_budget(conn, table):
    run_id = insert_run(
        conn,
        table,
        status="failed",
        attempts=4,
        worker_losses=5,
        starts=9,
        action_results=Jsonb([{"ok": True}]),
    )
    token = row_of(conn, "trigger_run", run_id)["lease_token"]

    assert rearm(conn, table, run_id, now=NOW)

    row = row_of(conn, "trigger_run", run_id)
    assert (row["status"], row["attempts"], row["worker_losses"]) == ("pending", 0, 0)
    assert (row["starts"], row["urgent"], row["error"]) == (9, True, None)
    assert (row["lease_token"], row["action_results"]) == (token, [{"ok": True}])
    times = conn.execute("SELECT next_attempt_at, announce_at FROM trigger_run").fetchone()
    assert times == (NOW, NOW)


def test_pressing_retry_often_gives_one_more_execution(conn, table):
    run_id = insert_run(conn, table, status="failed")
    token = get_token(conn, run_id)

    assert all(rearm(conn, table, run_id, now=NOW) for _ in range(20))

    reference = Reference(id=run_id, token=token)
    lease = {"worker_id": 1, "lease_seconds": 300}
    assert len(claim(conn, [reference], lease_token=uuid4(), **lease)) == 1
    assert not rearm(conn, table, run_id, now=NOW)
    assert claim(conn, [reference], lease_token=uuid4(), **lease) == []


def get_token(conn, run_id):
    return conn.execute("SELECT lease_token FROM trigger_run WHERE id = %s", [run_id]).fetchone()[0]


def test_a_pending_run_is_queued_again_under_its_token(conn, table):
    run_id = insert_run(conn, table, announce_at=FAR_OFF, next_attempt_at=FAR_OFF, attempts=2)
    token = get_token(conn, run_id)

    assert rearm(conn, table, run_id, now=NOW)

    times = conn.execute("SELECT next_attempt_at, announce_at FROM trigger_run").fetchone()
    assert times == (NOW, NOW)
    assert get_token(conn, run_id) == token


@pytest.mark.parametrize(("seconds", "allowed"), [(299, False), (301, True)])
def test_a_running_run_is_armed_again_only_when_it_is_stale(conn, table, seconds, allowed):
    touched_at = NOW - timedelta(seconds=seconds)
    run_id = insert_run(conn, table, status="running", updated_at=touched_at)

    assert rearm(conn, table, run_id, now=NOW) is allowed

    expected = "pending" if allowed else "running"
    assert row_of(conn, "trigger_run", run_id)["status"] == expected


def test_a_done_run_and_one_of_another_table_are_not_armed_again(conn, table):
    done = insert_run(conn, table, status="done")
    foreign = insert_run(conn, status="failed")

    assert not rearm(conn, table, done, now=NOW)
    assert not rearm(conn, table, foreign, now=NOW)


def test_a_run_is_not_armed_again_beside_an_active_one_of_its_clock_trigger(conn, table):
    state = insert_state(conn, table, kind="daily")
    clock = {"kind": "daily", "trigger_ref": state.ref}
    failed = insert_run(conn, table, status="failed", **clock)
    insert_run(conn, table, status="running", **clock)

    with conn.transaction():
        with pytest.raises(Conflict) as refused:
            rearm(conn, table, failed, now=NOW)
        assert refused.value.code == "trigger_has_active_run"
        assert row_of(conn, "trigger_run", failed)["status"] == "failed"


def test_a_run_armed_again_fences_its_clock_trigger(conn, table):
    state = insert_state(conn, table, kind="daily")
    clock = {"kind": "daily", "trigger_ref": state.ref, "status": "failed"}
    first, second = (insert_run(conn, table, **clock) for _ in range(2))

    assert rearm(conn, table, first, now=NOW)
    assert rearm(conn, table, first, now=NOW)
    with pytest.raises(Conflict):
        rearm(conn, table, second, now=NOW)


def test_a_pending_run_can_be_cancelled(conn, table):
    run_id = insert_run(conn, table)

    assert cancel(conn, table, run_id, now=NOW)

    run = get_run(conn, table, run_id)
    assert (run.status, run.error, run.finished_at) == ("failed", "cancelled", NOW)


@pytest.mark.parametrize("status", ["running", "done", "failed"])
def test_only_a_pending_run_can_be_cancelled(conn, table, status):
    run_id = insert_run(conn, table, status=status)

    assert not cancel(conn, table, run_id, now=NOW)
    assert row_of(conn, "trigger_run", run_id)["status"] == status


def _cancel_all(conn, table, *, limit=100, **filter):
    return cancel_matching(conn, table, RunFilter(**filter), limit=limit, now=NOW)


def _statuses(conn, ids):
    return [row_of(conn, "trigger_run", id)["status"] for id in ids]


def test_what_a_filter_finds_is_cancelled_as_far_as_it_is_pending(conn, table):
    statuses = ("pending", "running", "done", "failed")
    mine = [insert_run(conn, table, status=one, record_id=7) for one in statuses]
    other = insert_run(conn, table, record_id=8)
    before = [row_of(conn, "trigger_run", id) for id in (*mine[1:], other)]

    assert _cancel_all(conn, table, record_id=7, status="running") == 1

    run = get_run(conn, table, mine[0])
    assert (run.status, run.error, run.finished_at) == ("failed", "cancelled", NOW)
    assert [row_of(conn, "trigger_run", id) for id in (*mine[1:], other)] == before


def test_each_restriction_of_a_bulk_cancel_is_kept(conn, table):
    early, late = (insert_run(conn, table, created_at=at) for at in (LONG_AGO, NOW))
    named = insert_run(conn, table, trigger_id=trigger_id(9), created_at=FAR_OFF)

    assert _cancel_all(conn, table, trigger_id=trigger_id(9)) == 1
    assert _statuses(conn, [early, late, named]) == ["pending", "pending", "failed"]
    assert _cancel_all(conn, table, to_at=NOW) == 1
    assert _statuses(conn, [early, late]) == ["failed", "pending"]
    assert _cancel_all(conn, table, from_at=NOW) == 1


def test_the_oldest_of_many_are_cancelled_first(conn, table):
    made = insert_runs(conn, table, count=3)

    assert _cancel_all(conn, table, limit=2) == 2
    assert _statuses(conn, made) == ["failed", "failed", "pending"]


def test_runs_of_another_table_are_not_cancelled(conn, table):
    other = insert_run(conn, insert_table(conn, tenant_id=table.tenant_id))

    assert _cancel_all(conn, table) == 0
    assert _statuses(conn, [other]) == ["pending"]


def test_a_run_that_is_claimed_meanwhile_is_not_cancelled(conn, other_conn, table):
    run_id = insert_run(conn, table)
    reference = Reference(id=run_id, token=get_token(conn, run_id))
    lease = {"worker_id": 1, "lease_token": uuid4(), "lease_seconds": 300}

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            assert len(claim(conn, [reference], **lease)) == 1
            cancelling = pool.submit(_cancel_all, other_conn, table)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=30)
        assert cancelling.result() == 0

    assert _statuses(conn, [run_id]) == ["running"]


def test_a_run_is_either_started_or_cancelled(conn, other_conn, table):
    run_id = insert_run(conn, table)
    reference = Reference(id=run_id, token=get_token(conn, run_id))

    with conn.transaction():
        assert cancel(conn, table, run_id, now=NOW)
        lease = {"worker_id": 1, "lease_token": uuid4(), "lease_seconds": 300}
        assert claim(other_conn, [reference], **lease) == []

    assert claim(other_conn, [reference], **lease) == []


@pytest.mark.parametrize(
    ("status", "goes"), [("done", True), ("failed", True), ("pending", False), ("running", False)]
)
def test_only_a_run_that_has_ended_can_be_deleted(conn, table, status, goes):
    run_id = insert_run(conn, table, status=status)

    assert delete_run(conn, table, run_id) is goes
    assert (conn.execute("SELECT FROM trigger_run").fetchone() is None) is goes


def test_old_runs_go_in_small_batches_the_oldest_first(conn, table):
    old = [
        insert_run(conn, table, status="done", finished_at=LONG_AGO + timedelta(days=day))
        for day in range(3)
    ]
    young = insert_run(conn, table, status="failed", finished_at=NOW)
    pending = insert_run(conn, table)

    assert delete_finished(conn, before=NOW, limit=2) == 2
    assert _ids(conn, table) == [pending, young, old[2]]
    assert delete_finished(conn, before=NOW, limit=2) == 1
    assert delete_finished(conn, before=NOW, limit=2) == 0


def test_a_run_shows_what_it_holds(conn, table):
    run_id = insert_run(
        conn,
        table,
        status="running",
        record_id=4,
        snapshot=Jsonb({"c1": "a"}),
        action_results=Jsonb([{"ok": True}]),
    )

    run = get_run(conn, table, run_id)

    assert (run.id, run.record_id, run.snapshot) == (run_id, 4, {"c1": "a"})
    assert (run.status, run.action_results, run.table_id) == ("running", [{"ok": True}], table.id)


def test_a_run_of_another_table_is_not_found(conn, table):
    with pytest.raises(NotFound):
        get_run(conn, table, insert_run(conn))


def test_runs_are_listed_newest_first_page_by_page(conn, table):
    ids = insert_runs(conn, table, count=5)
    insert_run(conn)

    first = list_runs(conn, table, RunFilter(), limit=3, now=NOW)
    second = list_runs(conn, table, RunFilter(), before=first.items[-1].id, limit=3, now=NOW)

    assert [run.id for run in first.items + second.items] == ids[::-1]
    assert (len(first.items), first.more, second.more) == (3, True, False)
    assert _ids(conn, table) == ids[::-1]


def test_a_page_of_large_runs_is_short_and_says_that_others_follow(conn, table, monkeypatch):
    monkeypatch.setattr("shared.queries.pages.MAX_CHARACTERS", 100)
    ids = [insert_run(conn, table, snapshot=Jsonb({"c1": "x" * 80})) for _ in range(5)]

    pages, before = [], None
    while not pages or pages[-1].more:
        pages.append(list_runs(conn, table, RunFilter(), before=before, limit=9, now=NOW))
        before = pages[-1].items[-1].id

    assert [[run.id for run in page.items] for page in pages] == [
        [ids[4], ids[3]],
        [ids[2], ids[1]],
        [ids[0]],
    ]


@pytest.mark.parametrize("status", ["pending", "running", "done", "failed"])
def test_runs_are_listed_by_status(conn, table, status):
    ids = {other: insert_run(conn, table, status=other) for other in _STATUSES}

    assert _ids(conn, table, status=status) == [ids[status]]


_STATUSES = ("pending", "running", "done", "failed")


def test_stuck_runs_are_those_that_failed_or_that_nobody_touched_for_long(conn, table):
    now = server_now(conn)
    failed = insert_run(conn, table, status="failed")
    stale = insert_run(conn, table, status="running", updated_at=now - timedelta(seconds=301))
    insert_run(conn, table, status="running", updated_at=now - timedelta(seconds=299))
    insert_run(conn, table)
    insert_run(conn, table, status="done")

    assert _ids(conn, table, status="stuck", now=now) == [stale, failed]
    assert (count_failed(conn), count_stale(conn, now=now)) == (1, 1)


def test_runs_are_listed_by_trigger_record_and_time(conn, table):
    mine = trigger_id()
    by_trigger = insert_run(conn, table, trigger_id=mine)
    by_record = insert_run(conn, table, record_id=7)
    both = insert_run(conn, table, trigger_id=mine, record_id=7, created_at=NOW)

    assert _ids(conn, table, trigger_id=mine) == [both, by_trigger]
    assert _ids(conn, table, record_id=7) == [both, by_record]
    assert _ids(conn, table, trigger_id=mine, record_id=7, status="pending") == [both]
    assert _ids(conn, table, from_at=NOW) == [both]
    assert _ids(conn, table, to_at=NOW) == [by_record, by_trigger]
    assert _ids(conn, table, from_at=LONG_AGO, to_at=FAR_OFF, before=both) == [
        by_record,
        by_trigger,
    ]
