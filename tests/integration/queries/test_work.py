from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from psycopg.errors import CheckViolation
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.queries import work
from shared.queries.claims import claim, claim_actions
from shared.queries.workers import hold_liveness
from tests.builders_db import LONG_AGO, cells_of, insert_worker, row_of
from tests.builders_delayed import insert_action
from tests.builders_work import insert_work, insert_works

LEASE = UUID(int=7)
OTHER = UUID(int=8)
RECEIPT = {"type": "notify", "ok": True}


CLAIM = {"trigger_run": claim, "scheduled_action": claim_actions}
HELD = {"trigger_run": "running", "scheduled_action": "processing"}


@pytest.fixture(params=list(HELD))
def kind(request):
    """Each test that takes it holds for both tables."""
    return request.param


@pytest.fixture
def held(conn, kind):
    """Inserts a row that somebody holds, under LEASE unless told otherwise; returns its id."""
    return lambda **more: insert_work(conn, kind, status="held", **{"lease_token": LEASE} | more)


@pytest.fixture
def row(conn, kind):
    """Returns a row, its times as text."""
    return lambda id: row_of(conn, kind, id)


@pytest.fixture
def times(conn, kind):
    """Returns when a row may be started and when it wants to be offered."""
    return lambda id: cells_of(conn, kind, id, "next_attempt_at", "announce_at")


@pytest.fixture
def save(conn, kind):
    def save(id, *, lease_token=LEASE, is_ok=True):
        return work.save_receipts(
            conn, kind=kind, id=id, lease_token=lease_token, receipts=[RECEIPT], is_ok=is_ok
        )

    return save


@pytest.fixture
def ends(conn, kind, held):
    """Tells whether a row ends, alone or together with others that do."""

    def ends(finish, *, others):
        more = [_finish(held()) for _ in range(others)]
        ended = work.finish(conn, [*more, finish], kind=kind)
        assert {end.id for end in more} <= set(ended)
        return finish.id in ended

    return ends


def _finish(id, *, token=LEASE, status="done"):
    error = None if status == "done" else "action 1 (notify): no"
    return work.Finish(id=id, lease_token=token, receipts=[RECEIPT], status=status, error=error)


def test_a_renewal_extends_the_leases_still_held(conn, kind, held):
    mine = held(worker_id=3, leased_until=LONG_AGO)
    held(worker_id=4)
    held(worker_id=3, lease_token=OTHER)

    leases = work.renew(conn, kind=kind, worker_id=3, lease_tokens=[LEASE], lease_seconds=300)

    assert leases == [(mine, LEASE, True)]
    until, touched = cells_of(conn, kind, mine, "leased_until", "updated_at")
    assert until > server_now(conn)
    assert touched > LONG_AGO


def test_a_renewal_does_not_wait_for_a_row_that_somebody_has_locked(conn, other_conn, kind, held):
    locked, free = held(worker_id=3), held(worker_id=3)

    with other_conn.transaction():
        other_conn.execute(f"SELECT FROM {kind} WHERE id = %s FOR UPDATE", [locked])
        leases = work.renew(conn, kind=kind, worker_id=3, lease_tokens=[LEASE], lease_seconds=300)

    assert leases == [(locked, LEASE, False), (free, LEASE, True)]


def test_an_intent_is_noted_only_under_the_lease(conn, kind, held, row):
    mine, lost = held(), held(lease_token=OTHER)
    intents = [(lost, 0), (mine, 2)]

    assert work.mark_intents(conn, kind=kind, lease_token=LEASE, intents=intents) == [mine]

    assert row(mine)["open_action"] == 2
    assert row(lost)["open_action"] is None


def test_receipts_close_the_intent_and_keep_the_row_held(kind, held, row, save):
    id = held(open_action=0, action_results=Jsonb([{"ok": False}]))

    assert save(id)

    assert (row(id)["status"], row(id)["open_action"]) == (HELD[kind], None)
    assert row(id)["action_results"] == [RECEIPT]


def test_receipts_are_refused_under_another_lease(held, row, save):
    id = held()

    assert not save(id, lease_token=OTHER)
    assert row(id)["action_results"] == []


def test_a_late_ok_is_noted_of_a_row_that_nobody_has_claimed_since(conn, kind, held, row, save):
    id = held(leased_until=LONG_AGO, open_action=0)
    work.recover_stale(conn, kind=kind)

    assert not save(id)

    assert (row(id)["status"], row(id)["open_action"]) == ("pending", None)
    assert row(id)["action_results"] == [RECEIPT]


def test_a_late_failure_is_not_noted(conn, kind, held, row, save):
    id = held(leased_until=LONG_AGO)
    work.recover_stale(conn, kind=kind)

    assert not save(id, is_ok=False)
    assert row(id)["action_results"] == []


def test_rows_of_several_leases_end_together(conn, kind, held, row):
    done, failed = held(open_action=1), held(lease_token=OTHER)
    ends = [_finish(failed, token=OTHER, status="failed"), _finish(done)]

    assert sorted(work.finish(conn, ends, kind=kind)) == [done, failed]

    assert (row(done)["status"], row(done)["error"], row(done)["open_action"]) == (
        "done",
        None,
        None,
    )
    assert row(done)["action_results"] == [RECEIPT]
    assert row(failed)["error"] == "action 1 (notify): no"


@pytest.mark.parametrize("others", [0, 1])
def test_an_end_without_receipts_keeps_those_stored(conn, kind, held, row, others):
    id = held(action_results=Jsonb([RECEIPT]))
    finishes = [_finish(held()) for _ in range(others)]
    crash = replace(_finish(id, status="failed"), receipts=None)

    assert id in work.finish(conn, [*finishes, crash], kind=kind)
    assert row(id)["action_results"] == [RECEIPT]


@pytest.mark.parametrize("others", [0, 1])
def test_a_holder_whose_row_was_claimed_by_another_does_not_end_it(
    conn, kind, held, row, ends, others
):
    id = held(leased_until=LONG_AGO)
    work.recover_stale(conn, kind=kind)
    CLAIM[kind](
        conn,
        [Reference(id=id, token=LEASE)],
        worker_id=2,
        lease_token=OTHER,
        lease_seconds=300,
    )

    assert not ends(_finish(id), others=others)
    assert row(id)["status"] == HELD[kind]


@pytest.mark.parametrize("others", [0, 1])
def test_a_late_ok_ends_a_row_that_nobody_has_claimed_since(conn, kind, held, row, ends, others):
    id = held(leased_until=LONG_AGO)
    work.recover_stale(conn, kind=kind)

    assert ends(_finish(id), others=others)
    assert row(id)["status"] == "done"


@pytest.mark.parametrize("others", [0, 1])
def test_a_late_failure_has_no_grace(conn, kind, held, row, ends, others):
    id = held(leased_until=LONG_AGO)
    work.recover_stale(conn, kind=kind)

    assert not ends(_finish(id, status="failed"), others=others)
    assert row(id)["status"] == "pending"


@pytest.mark.parametrize("others", [0, 1])
def test_a_cancelled_action_keeps_the_reason_and_has_no_grace(conn, others):
    def ends(id):
        more = [_finish(held()) for _ in range(others)]
        return id in work.finish(conn, [*more, cancelled(id)], kind="scheduled_action")

    def held(**more):
        return insert_action(conn, status="processing", lease_token=LEASE, **more)

    def cancelled(id):
        end = replace(_finish(id, status="cancelled"), receipts=None)
        return replace(end, error="subject no longer exists")

    late = held(leased_until=LONG_AGO)
    work.recover_stale(conn, kind="scheduled_action")
    id = held()

    assert ends(id)
    assert not ends(late)
    row = row_of(conn, "scheduled_action", id)
    assert (row["status"], row["error"]) == ("cancelled", "subject no longer exists")
    assert row_of(conn, "scheduled_action", late)["status"] == "pending"


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("status", ["done", "failed"])
def test_an_ended_row_does_not_end_again(conn, kind, row, ends, status, others):
    id = insert_work(conn, kind, status=status, lease_token=LEASE)

    assert not ends(_finish(id), others=others)
    assert row(id)["status"] == status


def test_a_failed_row_must_say_why(conn, kind, held):
    silent = replace(_finish(held(), status="failed"), error=None)

    with pytest.raises(CheckViolation, match="has_a_reason"):
        work.finish(conn, [silent], kind=kind)


def test_a_postponed_row_waits_with_its_receipts_and_attempts(conn, kind, held, row, times):
    id = held(attempts=2, open_action=0)
    before = server_now(conn)

    assert work.postpone(
        conn, kind=kind, id=id, lease_token=LEASE, receipts=[RECEIPT], delay_seconds=60
    )

    assert (row(id)["status"], row(id)["attempts"], row(id)["open_action"]) == ("pending", 2, None)
    next_attempt_at, announce_at = times(id)
    assert next_attempt_at == announce_at
    assert timedelta(seconds=60) <= next_attempt_at - before <= timedelta(seconds=65)


def test_postponing_is_refused_under_another_lease(conn, kind, held, row):
    id = held()

    assert not work.postpone(
        conn, kind=kind, id=id, lease_token=OTHER, receipts=[], delay_seconds=1
    )
    assert row(id)["status"] == HELD[kind]


def test_a_row_handed_back_is_due_at_once_and_has_used_no_attempt(conn, kind, held, row, times):
    id = held(attempts=2, starts=3)

    assert work.hand_back(conn, [(id, LEASE), (id + 1, LEASE)], kind=kind) == [id]

    assert (row(id)["status"], row(id)["attempts"], row(id)["starts"]) == ("pending", 1, 3)
    assert max(times(id)) <= server_now(conn)


def test_only_an_intent_whose_call_has_not_begun_is_taken_back_with_its_row(conn, kind, held, row):
    unsent, sent = held(open_action=0), held(open_action=0)

    work.hand_back(conn, [(unsent, LEASE), (sent, LEASE)], kind=kind, unsent=[unsent])

    assert [row(id)["open_action"] for id in (unsent, sent)] == [None, 0]


def test_what_an_unanswered_claim_has_taken_is_found_by_its_token(conn, kind, held):
    mine = held(worker_id=3)
    held(worker_id=4)
    held(worker_id=3, lease_token=OTHER)

    assert work.list_held(conn, kind=kind, worker_id=3, lease_token=LEASE) == [mine]


def test_a_row_is_not_handed_back_under_another_lease(conn, kind, held, row):
    id = held()

    assert work.hand_back(conn, [(id, OTHER)], kind=kind) == []
    assert row(id)["status"] == HELD[kind]


def test_a_row_is_not_touched_through_the_other_table(conn, held, row, kind):
    id = held()
    (other,) = HELD.keys() - {kind}

    assert work.hand_back(conn, [(id, LEASE)], kind=other) == []
    assert work.finish(conn, [_finish(id)], kind=other) == []
    assert row(id)["status"] == HELD[kind]


def test_a_lease_that_ran_out_is_taken_back_with_its_token(conn, kind, held, row):
    id = held(attempts=2, leased_until=LONG_AGO)

    (recovered,) = work.recover_stale(conn, kind=kind)

    assert (recovered.id, recovered.status) == (id, "pending")
    assert (row(id)["attempts"], row(id)["worker_losses"]) == (1, 1)
    assert (row(id)["lease_token"], row(id)["worker_id"]) == (str(LEASE), None)


def test_a_live_lease_of_a_living_worker_is_left_alone(conn, other_conn, kind, held):
    hold_liveness(other_conn, 5)
    held(worker_id=5)

    assert work.recover_stale(conn, kind=kind, restart_grace_seconds=0) == []


def test_a_live_lease_of_a_worker_whose_session_is_gone_is_taken_back(conn, other_conn, kind, held):
    dead, living = insert_worker(conn), insert_worker(conn)
    hold_liveness(other_conn, living)
    lost = held(worker_id=dead)
    held(worker_id=living)

    recovered = work.recover_stale(conn, kind=kind, restart_grace_seconds=0)

    assert [one.id for one in recovered] == [lost]


def test_a_worker_that_begins_between_two_batches_of_a_sweep_keeps_its_rows(
    conn, other_conn, kind, held
):
    insert_works(conn, kind, count=2, status="held", worker_id=1)
    assert len(work.recover_stale(conn, kind=kind, limit=1, restart_grace_seconds=0)) == 1

    hold_liveness(other_conn, 2)
    held(worker_id=2)

    assert len(work.recover_stale(conn, kind=kind, restart_grace_seconds=0)) == 1


def test_after_a_restart_of_the_server_only_the_lease_counts(conn, kind, held):
    held(worker_id=5)
    over = held(worker_id=5, leased_until=LONG_AGO)

    recovered = work.recover_stale(conn, kind=kind, restart_grace_seconds=10_000_000)

    assert [one.id for one in recovered] == [over]


@pytest.mark.parametrize(("losses_before", "delay_seconds"), [(0, 0), (1, 40), (2, 80), (3, 160)])
def test_each_loss_after_the_first_delays_the_next_start_more(
    conn, kind, held, times, losses_before, delay_seconds
):
    id = held(worker_losses=losses_before, leased_until=LONG_AGO)
    before = server_now(conn)

    work.recover_stale(conn, kind=kind)

    next_attempt_at, announce_at = times(id)
    delay = timedelta(seconds=delay_seconds)
    assert before + delay <= next_attempt_at <= server_now(conn) + delay
    assert announce_at == next_attempt_at


def test_the_fifth_loss_ends_the_row(conn, kind, held, row):
    id = held(worker_losses=4, leased_until=LONG_AGO)

    (recovered,) = work.recover_stale(conn, kind=kind)

    assert recovered.status == "failed"
    assert (row(id)["error"], row(id)["worker_losses"]) == ("worker lost 5 times", 5)


def test_two_sweeps_take_a_row_back_once(conn, other_conn, kind):
    insert_works(conn, kind, count=2, status="held", leased_until=LONG_AGO)

    with conn.transaction():
        first = work.recover_stale(conn, kind=kind, limit=1)
        second = work.recover_stale(other_conn, kind=kind)

    assert len(first) == len(second) == 1
    assert first[0].id != second[0].id


def test_a_sweep_passes_by_a_row_that_is_just_being_renewed(conn, other_conn, kind, held):
    hold_liveness(conn, 1)
    held(leased_until=LONG_AGO)

    with conn.transaction():
        work.renew(conn, kind=kind, worker_id=1, lease_tokens=[LEASE], lease_seconds=300)
        assert work.recover_stale(other_conn, kind=kind) == []

    assert work.recover_stale(other_conn, kind=kind) == []
