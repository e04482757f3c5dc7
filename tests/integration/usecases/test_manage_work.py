"""Runs in the hands of a moderator (spec 2 §3)."""

from datetime import timedelta

import pytest

from shared.domain.runs import STALE_SECONDS
from shared.errors import Conflict, NotFound
from shared.queries.run_lists import RunFilter, get_run
from shared.usecases.manage_work import cancel_run, delete_run, retry_run, retry_runs
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_run, insert_state, insert_table, row_of
from tests.integration.usecases.world import (
    INTERVAL,
    MINUTE,
    a_known,
    created,
    end_runs,
    hear,
    ledger,
    runs,
    save,
)

STALE = timedelta(seconds=STALE_SECONDS)
RECEIPTS = '[{"type": "webhook", "ok": true}]'


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _row(conn, run_id):
    return row_of(conn, "trigger_run", run_id)


def _clock_runs(conn, table, *statuses):
    """Insert a run of one interval trigger for each status, the oldest first."""
    state = insert_state(conn, table, kind="interval", schedule=INTERVAL)
    return [
        insert_run(
            conn,
            table,
            status=status,
            kind="interval",
            trigger_ref=state.ref,
            trigger_id=state.trigger_id,
        )
        for status in statuses
    ]


@pytest.mark.parametrize("status", ["failed", "running"])
def test_a_failed_or_stale_run_starts_anew_with_a_fresh_budget(conn, table, status):
    run_id = insert_run(
        conn, table, status=status, attempts=4, starts=7, worker_losses=2, action_results=RECEIPTS
    )
    before = _row(conn, run_id)

    run = retry_run(conn, table, run_id, now=NOW)

    assert (run.status, run.attempts, run.worker_losses, run.error) == ("pending", 0, 0, None)
    assert (run.next_attempt_at, run.starts) == (NOW, 7)
    assert run.action_results == before["action_results"] != []
    after = _row(conn, run_id)
    for kept in ("identity", "definition_hash", "snapshot", "scheduled_for", "created_at"):
        assert after[kept] == before[kept]


def test_a_pending_run_is_queued_again_under_the_same_token(conn, table):
    run_id = insert_run(conn, table, announce_at=FAR_OFF, next_attempt_at=FAR_OFF)
    before = _row(conn, run_id)

    run = retry_run(conn, table, run_id, now=NOW)

    after = _row(conn, run_id)
    assert (run.status, run.next_attempt_at) == ("pending", NOW)
    assert after["lease_token"] == before["lease_token"]


def test_retry_pressed_twenty_times_is_one_more_execution(conn, table):
    run_id = insert_run(conn, table, status="failed")

    pressed = [retry_run(conn, table, run_id, now=NOW + n * MINUTE) for n in range(20)]

    assert {run.status for run in pressed} == {"pending"}
    assert len(runs(conn)) == 1


@pytest.mark.parametrize(("status", "touched"), [("done", NOW), ("running", NOW - STALE)])
def test_a_done_or_living_run_is_not_retried(conn, table, status, touched):
    run_id = insert_run(conn, table, status=status, updated_at=touched)
    before = _row(conn, run_id)

    with pytest.raises(Conflict) as caught:
        retry_run(conn, table, run_id, now=NOW)

    assert caught.value.message == (
        f"run is {status}; only failed/pending (or stale-running) runs can be retried"
    )
    assert _row(conn, run_id) == before


@pytest.mark.parametrize("active", ["pending", "running"])
def test_a_clock_run_is_not_retried_while_another_of_its_trigger_is_active(conn, table, active):
    failed, _ = _clock_runs(conn, table, "failed", active)
    before = _row(conn, failed)

    with pytest.raises(Conflict) as caught:
        retry_run(conn, table, failed, now=NOW)

    assert caught.value.code == "trigger_has_active_run"
    assert _row(conn, failed) == before


def test_a_pending_clock_run_does_not_stand_in_its_own_way(conn, table):
    [pending] = _clock_runs(conn, table, "pending")

    assert retry_run(conn, table, pending, now=NOW).status == "pending"


def test_runs_of_date_triggers_do_not_fence_each_other(conn, table):
    state = insert_state(conn, table)
    failed, _ = (
        insert_run(conn, table, status=status, kind="date_column_reached", trigger_ref=state.ref)
        for status in ("failed", "pending")
    )

    assert retry_run(conn, table, failed, now=NOW).status == "pending"


def test_workers_are_told_of_a_retry(conn, other_conn, table):
    heard = hear(other_conn, "duebook_work")

    retry_run(conn, table, insert_run(conn, table, status="failed"), now=NOW)

    assert heard() == 1


def test_a_run_of_another_table_is_not_found(conn, table):
    run_id = insert_run(conn, insert_table(conn), status="failed")

    for move in (retry_run, cancel_run):
        with pytest.raises(NotFound):
            move(conn, table, run_id, now=NOW)
    with pytest.raises(NotFound):
        delete_run(conn, table, run_id)


def test_a_bulk_retry_answers_counts(conn, table):
    failed = [insert_run(conn, table, status="failed") for _ in range(3)]
    insert_run(conn, table, status="done")
    insert_run(conn, insert_table(conn), status="failed")

    counts = retry_runs(conn, table, RunFilter(status="failed"), limit=10, now=NOW)

    assert (counts.retried, counts.skipped) == (3, 0)
    assert {get_run(conn, table, run_id).status for run_id in failed} == {"pending"}


def test_a_bulk_retry_takes_the_newest_and_keeps_its_limit(conn, table):
    older, newer = (insert_run(conn, table, status="failed") for _ in range(2))

    counts = retry_runs(conn, table, RunFilter(status="failed"), limit=1, now=NOW)

    assert counts.retried == 1
    assert get_run(conn, table, newer).status == "pending"
    assert get_run(conn, table, older).status == "failed"


def test_a_bulk_retry_skips_what_may_not_be_retried(conn, table):
    first, second, third = _clock_runs(conn, table, "failed", "failed", "done")

    counts = retry_runs(conn, table, RunFilter(), limit=10, now=NOW)

    assert (counts.retried, counts.skipped) == (1, 2)
    statuses = [get_run(conn, table, run_id).status for run_id in (first, second, third)]
    assert statuses == ["failed", "pending", "done"]


def test_a_bulk_retry_that_finds_nothing_wakes_nobody(conn, other_conn, table):
    heard = hear(other_conn, "duebook_work")

    counts = retry_runs(conn, table, RunFilter(trigger_id="trg_0"), limit=10, now=NOW)

    assert (counts.retried, counts.skipped) == (0, 0)
    assert heard() == 0


def test_a_pending_run_is_cancelled_and_says_so(conn, table):
    run = cancel_run(conn, table, insert_run(conn, table), now=NOW)

    assert (run.status, run.error, run.finished_at) == ("failed", "cancelled", NOW)


@pytest.mark.parametrize("status", ["running", "done", "failed"])
def test_only_a_pending_run_is_cancelled(conn, table, status):
    run_id = insert_run(conn, table, status=status, updated_at=LONG_AGO)
    before = _row(conn, run_id)

    with pytest.raises(Conflict) as caught:
        cancel_run(conn, table, run_id, now=NOW)

    assert caught.value.message == f"run is {status}; only pending runs can be cancelled"
    assert _row(conn, run_id) == before


def test_a_cancelled_clock_run_has_consumed_its_window_and_lifts_the_fence(conn, table):
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)

    cancel_run(conn, table, runs(conn)[0]["id"], now=NOW)

    assert created(conn, now=NOW + MINUTE) == 0
    assert created(conn, now=NOW + 60 * MINUTE) == 1


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_run_that_has_ended_is_deleted_and_its_identity_stays(conn, table, status):
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)
    end_runs(conn, status=status)
    before = ledger(conn)

    delete_run(conn, table, runs(conn)[0]["id"])

    assert (runs(conn), ledger(conn)) == ([], before)


@pytest.mark.parametrize("status", ["pending", "running"])
def test_an_active_run_is_not_deleted(conn, table, status):
    run_id = insert_run(conn, table, status=status)

    with pytest.raises(Conflict) as caught:
        delete_run(conn, table, run_id)

    assert caught.value.message == f"run is {status}; only done/failed runs can be deleted"
    assert len(runs(conn)) == 1
