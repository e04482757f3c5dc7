from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from psycopg.errors import CheckViolation
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.queries import work
from shared.queries.claims import claim
from shared.queries.workers import hold_liveness
from tests.builders_db import LONG_AGO, insert_run, insert_runs, insert_table, insert_worker, row_of

LEASE = UUID(int=7)
OTHER = UUID(int=8)
RECEIPT = {"type": "notify", "ok": True}


def _held(conn, table=None, **more):
    return insert_run(conn, table, status="running", lease_token=LEASE, **more)


def _status(conn, run_id):
    return row_of(conn, "trigger_run", run_id)["status"]


def _times(conn, run_id):
    return conn.execute(
        "SELECT next_attempt_at, announce_at FROM trigger_run WHERE id = %s", [run_id]
    ).fetchone()


def _finish(run_id, *, token=LEASE, status="done"):
    error = None if status == "done" else "action 1 (notify): no"
    return work.Finish(
        run_id=run_id, lease_token=token, receipts=[RECEIPT], status=status, error=error
    )


def _ends(conn, finish, *, others):
    """Whether a run ends, alone or together with others that do."""
    ends = [_finish(_held(conn)) for _ in range(others)]
    ended = work.finish(conn, [*ends, finish])
    assert {end.run_id for end in ends} <= set(ended)
    return finish.run_id in ended


def _save(conn, run_id, *, lease_token=LEASE, is_ok=True):
    return work.save_receipts(
        conn, run_id=run_id, lease_token=lease_token, receipts=[RECEIPT], is_ok=is_ok
    )


def test_a_renewal_extends_the_leases_still_held(conn):
    table = insert_table(conn)
    mine = _held(conn, table, worker_id=3, leased_until=LONG_AGO)
    _held(conn, table, worker_id=4)
    insert_run(conn, table, status="running", worker_id=3, lease_token=OTHER)

    leases = work.renew(conn, worker_id=3, lease_tokens=[LEASE], lease_seconds=300)

    assert leases == [(mine, LEASE, True)]
    until, touched = conn.execute(
        "SELECT leased_until, updated_at FROM trigger_run WHERE id = %s", [mine]
    ).fetchone()
    assert until > server_now(conn)
    assert touched > LONG_AGO


def test_a_renewal_does_not_wait_for_a_row_that_somebody_has_locked(conn, other_conn):
    table = insert_table(conn)
    locked = _held(conn, table, worker_id=3)
    free = _held(conn, table, worker_id=3)

    with other_conn.transaction():
        other_conn.execute("SELECT FROM trigger_run WHERE id = %s FOR UPDATE", [locked])
        leases = work.renew(conn, worker_id=3, lease_tokens=[LEASE], lease_seconds=300)

    assert leases == [(locked, LEASE, False), (free, LEASE, True)]


def test_an_intent_is_noted_only_under_the_lease(conn):
    table = insert_table(conn)
    mine = _held(conn, table)
    lost = insert_run(conn, table, status="running", lease_token=OTHER)

    assert work.mark_intents(conn, lease_token=LEASE, intents=[(lost, 0), (mine, 2)]) == [mine]

    assert row_of(conn, "trigger_run", mine)["open_action"] == 2
    assert row_of(conn, "trigger_run", lost)["open_action"] is None


def test_receipts_close_the_intent_and_keep_the_run(conn):
    run_id = _held(conn, open_action=0, action_results=Jsonb([{"ok": False}]))

    assert _save(conn, run_id)

    row = row_of(conn, "trigger_run", run_id)
    assert (row["status"], row["open_action"]) == ("running", None)
    assert row["action_results"] == [RECEIPT]


def test_receipts_are_refused_under_another_lease(conn):
    run_id = _held(conn)

    assert not _save(conn, run_id, lease_token=OTHER)
    assert row_of(conn, "trigger_run", run_id)["action_results"] == []


def test_a_late_ok_is_noted_of_a_run_that_nobody_has_claimed_since(conn):
    run_id = _held(conn, leased_until=LONG_AGO, open_action=0)
    work.recover_stale(conn)

    assert not _save(conn, run_id)

    row = row_of(conn, "trigger_run", run_id)
    assert (row["status"], row["action_results"], row["open_action"]) == (
        "pending",
        [RECEIPT],
        None,
    )


def test_a_late_failure_is_not_noted(conn):
    run_id = _held(conn, leased_until=LONG_AGO)
    work.recover_stale(conn)

    assert not _save(conn, run_id, is_ok=False)
    assert row_of(conn, "trigger_run", run_id)["action_results"] == []


def test_runs_of_several_leases_end_together(conn):
    table = insert_table(conn)
    done = _held(conn, table, open_action=1)
    failed = insert_run(conn, table, status="running", lease_token=OTHER)

    ended = work.finish(conn, [_finish(failed, token=OTHER, status="failed"), _finish(done)])

    assert sorted(ended) == [done, failed]
    row = row_of(conn, "trigger_run", done)
    assert (row["status"], row["error"], row["open_action"]) == ("done", None, None)
    assert row["action_results"] == [RECEIPT]
    assert row_of(conn, "trigger_run", failed)["error"] == "action 1 (notify): no"


@pytest.mark.parametrize("others", [0, 1])
def test_an_end_without_receipts_keeps_those_stored(conn, others):
    table = insert_table(conn)
    run_id = _held(conn, table, action_results=Jsonb([RECEIPT]))
    finishes = [_finish(_held(conn, table)) for _ in range(others)]
    crash = replace(_finish(run_id, status="failed"), receipts=None)

    assert run_id in work.finish(conn, [*finishes, crash])
    assert row_of(conn, "trigger_run", run_id)["action_results"] == [RECEIPT]


@pytest.mark.parametrize("others", [0, 1])
def test_a_holder_whose_run_was_claimed_by_another_does_not_end_it(conn, others):
    run_id = _held(conn, leased_until=LONG_AGO)
    work.recover_stale(conn)
    reference = Reference(id=run_id, token=LEASE)
    claim(conn, [reference], worker_id=2, lease_token=OTHER, lease_seconds=300)

    assert not _ends(conn, _finish(run_id), others=others)
    assert _status(conn, run_id) == "running"


@pytest.mark.parametrize("others", [0, 1])
def test_a_late_ok_ends_a_run_that_nobody_has_claimed_since(conn, others):
    run_id = _held(conn, leased_until=LONG_AGO)
    work.recover_stale(conn)

    assert _ends(conn, _finish(run_id), others=others)
    assert _status(conn, run_id) == "done"


@pytest.mark.parametrize("others", [0, 1])
def test_a_late_failure_has_no_grace(conn, others):
    run_id = _held(conn, leased_until=LONG_AGO)
    work.recover_stale(conn)

    assert not _ends(conn, _finish(run_id, status="failed"), others=others)
    assert _status(conn, run_id) == "pending"


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("status", ["done", "failed"])
def test_an_ended_run_does_not_end_again(conn, status, others):
    run_id = insert_run(conn, status=status, lease_token=LEASE)

    assert not _ends(conn, _finish(run_id), others=others)
    assert _status(conn, run_id) == status


def test_a_failed_run_must_say_why(conn):
    run_id = _held(conn)
    silent = work.Finish(run_id=run_id, lease_token=LEASE, receipts=[], status="failed", error=None)

    with pytest.raises(CheckViolation, match="failed_has_a_reason"):
        work.finish(conn, [silent])


def test_a_postponed_run_waits_with_its_receipts_and_attempts(conn):
    run_id = _held(conn, attempts=2, open_action=0)
    before = server_now(conn)

    assert work.postpone(
        conn, run_id=run_id, lease_token=LEASE, receipts=[RECEIPT], delay_seconds=60
    )

    row = row_of(conn, "trigger_run", run_id)
    assert (row["status"], row["attempts"], row["open_action"]) == ("pending", 2, None)
    next_attempt_at, announce_at = _times(conn, run_id)
    assert next_attempt_at == announce_at
    assert timedelta(seconds=60) <= next_attempt_at - before <= timedelta(seconds=65)


def test_postponing_is_refused_under_another_lease(conn):
    run_id = _held(conn)

    assert not work.postpone(conn, run_id=run_id, lease_token=OTHER, receipts=[], delay_seconds=1)
    assert _status(conn, run_id) == "running"


def test_a_run_handed_back_is_due_at_once_and_has_used_no_attempt(conn):
    run_id = _held(conn, attempts=2, starts=3)

    assert work.hand_back(conn, [(run_id, LEASE), (run_id + 1, LEASE)]) == [run_id]

    row = row_of(conn, "trigger_run", run_id)
    assert (row["status"], row["attempts"], row["starts"]) == ("pending", 1, 3)
    assert max(_times(conn, run_id)) <= server_now(conn)


def test_only_an_intent_whose_call_has_not_begun_is_taken_back_with_its_run(conn):
    table = insert_table(conn)
    unsent, sent = _held(conn, table, open_action=0), _held(conn, table, open_action=0)

    work.hand_back(conn, [(unsent, LEASE), (sent, LEASE)], unsent=[unsent])

    opened = [row_of(conn, "trigger_run", id)["open_action"] for id in (unsent, sent)]
    assert opened == [None, 0]


def test_what_an_unanswered_claim_has_taken_is_found_by_its_token(conn):
    table = insert_table(conn)
    mine = _held(conn, table, worker_id=3)
    _held(conn, table, worker_id=4)
    insert_run(conn, table, status="running", worker_id=3, lease_token=OTHER)

    assert work.list_held(conn, worker_id=3, lease_token=LEASE) == [mine]


def test_a_run_is_not_handed_back_under_another_lease(conn):
    run_id = _held(conn)

    assert work.hand_back(conn, [(run_id, OTHER)]) == []
    assert _status(conn, run_id) == "running"


def test_a_lease_that_ran_out_is_taken_back_with_its_token(conn):
    run_id = _held(conn, attempts=2, leased_until=LONG_AGO)

    (recovered,) = work.recover_stale(conn)

    assert (recovered.id, recovered.status) == (run_id, "pending")
    row = row_of(conn, "trigger_run", run_id)
    assert (row["attempts"], row["worker_losses"]) == (1, 1)
    assert (row["lease_token"], row["worker_id"]) == (str(LEASE), None)


def test_a_live_lease_of_a_living_worker_is_left_alone(conn, other_conn):
    hold_liveness(other_conn, 5)
    _held(conn, worker_id=5)

    assert work.recover_stale(conn, restart_grace_seconds=0) == []


def test_a_live_lease_of_a_worker_whose_session_is_gone_is_taken_back(conn, other_conn):
    dead, living = insert_worker(conn), insert_worker(conn)
    hold_liveness(other_conn, living)
    lost = _held(conn, worker_id=dead)
    _held(conn, insert_table(conn), worker_id=living)

    recovered = work.recover_stale(conn, restart_grace_seconds=0)

    assert [run.id for run in recovered] == [lost]


def test_a_worker_that_begins_between_two_batches_of_a_sweep_keeps_its_runs(conn, other_conn):
    insert_runs(conn, count=2, status="running", worker_id=1)
    assert len(work.recover_stale(conn, limit=1, restart_grace_seconds=0)) == 1

    hold_liveness(other_conn, 2)
    _held(conn, insert_table(conn), worker_id=2)

    assert len(work.recover_stale(conn, restart_grace_seconds=0)) == 1


def test_after_a_restart_of_the_server_only_the_lease_counts(conn):
    table = insert_table(conn)
    _held(conn, table, worker_id=5)
    over = _held(conn, table, worker_id=5, leased_until=LONG_AGO)

    recovered = work.recover_stale(conn, restart_grace_seconds=10_000_000)

    assert [run.id for run in recovered] == [over]


@pytest.mark.parametrize(("losses_before", "delay_seconds"), [(0, 0), (1, 40), (2, 80), (3, 160)])
def test_each_loss_after_the_first_delays_the_next_start_more(conn, losses_before, delay_seconds):
    run_id = _held(conn, worker_losses=losses_before, leased_until=LONG_AGO)
    before = server_now(conn)

    work.recover_stale(conn)

    next_attempt_at, announce_at = _times(conn, run_id)
    delay = timedelta(seconds=delay_seconds)
    assert before + delay <= next_attempt_at <= server_now(conn) + delay
    assert announce_at == next_attempt_at


def test_the_fifth_loss_ends_the_run(conn):
    run_id = _held(conn, worker_losses=4, leased_until=LONG_AGO)

    (recovered,) = work.recover_stale(conn)

    assert recovered.status == "failed"
    row = row_of(conn, "trigger_run", run_id)
    assert (row["error"], row["worker_losses"]) == ("worker lost 5 times", 5)


def test_two_sweeps_take_a_run_back_once(conn, other_conn):
    insert_runs(conn, count=2, status="running", leased_until=LONG_AGO)

    with conn.transaction():
        first = work.recover_stale(conn, limit=1)
        second = work.recover_stale(other_conn)

    assert len(first) == len(second) == 1
    assert first[0].id != second[0].id


def test_a_sweep_passes_by_a_run_that_is_just_being_renewed(conn, other_conn):
    hold_liveness(conn, 1)
    _held(conn, leased_until=LONG_AGO)

    with conn.transaction():
        work.renew(conn, worker_id=1, lease_tokens=[LEASE], lease_seconds=300)
        assert work.recover_stale(other_conn) == []

    assert work.recover_stale(other_conn) == []
