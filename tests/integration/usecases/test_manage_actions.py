"""Scheduled actions in the hands of a moderator (spec 3 §7); what callers see: tests of the API."""

from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.errors import LockNotAvailable

from shared.domain.work import Reference
from shared.errors import Conflict, NotFound
from shared.queries.action_lists import ActionFilter
from shared.queries.claims import claim_actions
from shared.usecases.manage_actions import (
    cancel_action,
    cancel_actions,
    edit_action,
    retry_action,
    run_action_now,
)
from tests.builders_db import LONG_AGO, NOW, insert_tenant, row_of
from tests.builders_delayed import insert_action, insert_line_user, insert_wait
from tests.integration.usecases.world import hear

LATER = NOW + timedelta(days=1)


@pytest.fixture
def tenant(conn):
    return insert_tenant(conn)


def _edit(conn, tenant, action_id, *, execute_at=LATER):
    return edit_action(conn, tenant, action_id, execute_at=execute_at, action_config=None, now=NOW)


def _run_now(conn, tenant, action_id, branch=None):
    return run_action_now(conn, tenant, action_id, branch=branch, now=NOW)


def _cancel(conn, tenant, action_id):
    return cancel_action(conn, tenant, action_id, now=NOW)


def _retry(conn, tenant, action_id):
    return retry_action(conn, tenant, action_id, now=NOW)


WAKING = {"pending": (_edit, _run_now), "failed": (_retry,)}


@pytest.mark.parametrize(
    ("status", "move"), [(status, move) for status, moves in WAKING.items() for move in moves]
)
def test_who_may_have_to_act_sooner_is_told(conn, other_conn, tenant, status, move):
    heard = hear(other_conn, "duebook_work")

    move(conn, tenant, insert_action(conn, tenant, status=status))

    assert heard() == 1


def test_what_was_refused_wakes_nobody(conn, other_conn, tenant):
    heard = hear(other_conn, "duebook_work")
    done = insert_action(conn, tenant, status="done")

    for move in (_edit, _run_now, _retry, _cancel):
        with pytest.raises(Conflict):
            move(conn, tenant, done)

    assert heard() == 0


@pytest.mark.parametrize("move", [_edit, _run_now, _retry, _cancel])
def test_an_action_of_another_tenant_is_not_found(conn, tenant, move):
    action_id = insert_action(conn)
    before = row_of(conn, "scheduled_action", action_id)

    with pytest.raises(NotFound) as caught:
        move(conn, tenant, action_id)

    assert caught.value.code == "scheduled_action_not_found"
    assert row_of(conn, "scheduled_action", action_id) == before


def _claim(conn, action_id):
    token = conn.execute("SELECT lease_token FROM scheduled_action").fetchone()[0]
    return claim_actions(
        conn,
        [Reference(id=action_id, token=token)],
        worker_id=1,
        lease_token=uuid4(),
        lease_seconds=300,
    )


@pytest.mark.parametrize("move", [_edit, _run_now, _cancel])
def test_of_a_claim_and_a_move_by_hand_one_wins(conn, other_conn, tenant, move):
    action_id = insert_action(conn, tenant)
    conn.execute("SET lock_timeout = '10ms'")

    with other_conn.transaction():
        assert _claim(other_conn, action_id)
        with pytest.raises(LockNotAvailable):
            move(conn, tenant, action_id)

    with pytest.raises(Conflict) as caught:
        move(conn, tenant, action_id)
    assert caught.value.code == "action_not_pending"


@pytest.mark.parametrize("move", [_edit, _cancel])
def test_what_was_moved_first_is_not_claimed(conn, other_conn, tenant, move):
    action_id = insert_action(conn, tenant)

    with other_conn.transaction():
        move(other_conn, tenant, action_id)
        assert _claim(conn, action_id) == []

    status = row_of(conn, "scheduled_action", action_id)["status"]
    assert status == ("cancelled" if move is _cancel else "pending")


def test_retry_pressed_twenty_times_is_one_more_execution(conn, tenant):
    action_id = insert_action(conn, tenant, status="failed", attempts=4)

    _retry(conn, tenant, action_id)
    for _ in range(19):
        with pytest.raises(Conflict):
            _retry(conn, tenant, action_id)

    assert len(_claim(conn, action_id)) == 1


def test_run_now_pressed_often_takes_one_branch(conn, tenant):
    action_id = insert_wait(conn, tenant, expires_at=LATER)

    first = _run_now(conn, tenant, action_id, "expired")
    again = _run_now(conn, tenant, action_id, "expired")

    assert (first.branch, again.branch) == ("expired", "expired")
    with pytest.raises(Conflict):
        _run_now(conn, tenant, action_id, "clicked")


def test_a_bulk_cancel_names_pending_ones_alone(conn, tenant):
    contact = insert_line_user(conn, tenant)
    failed = insert_action(conn, tenant, status="failed", line_user_id=contact)

    counts = cancel_actions(
        conn, tenant, ActionFilter(line_user_id=contact), dry_run=False, now=NOW
    )

    assert (counts.matched, counts.cancelled) == (0, 0)
    assert row_of(conn, "scheduled_action", failed)["status"] == "failed"


def test_a_dry_run_counts_and_leaves_all_as_it_is(conn, tenant):
    action_id = insert_action(conn, tenant)

    counts = cancel_actions(conn, tenant, ActionFilter(from_at=LONG_AGO), dry_run=True, now=NOW)

    assert (counts.matched, counts.cancelled) == (1, 0)
    assert row_of(conn, "scheduled_action", action_id)["status"] == "pending"
