from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb

from shared.domain.work import Reference
from shared.queries.action_lists import ActionFilter
from shared.queries.action_moves import (
    bring_forward,
    cancel,
    cancel_matching,
    delete_finished,
    edit,
    rearm,
)
from shared.queries.claims import claim_actions
from shared.queries.work import Finish, finish
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_tenant, row_of
from tests.builders_delayed import (
    NOTIFY,
    insert_action,
    insert_click,
    insert_execution,
    insert_line_user,
    insert_link,
    insert_wait,
)

STATUSES = ("pending", "processing", "done", "failed", "cancelled")
SECOND = timedelta(seconds=1)
LATER = NOW + timedelta(days=1)


@pytest.fixture
def tenant(conn):
    return insert_tenant(conn)


def _row(conn, action_id):
    return row_of(conn, "scheduled_action", action_id)


def _times(conn, action_id):
    return conn.execute(
        "SELECT execute_at, expires_at, next_attempt_at, announce_at FROM scheduled_action"
        " WHERE id = %s",
        [action_id],
    ).fetchone()


def _edit(conn, tenant, action_id, *, execute_at=None, action_config=None):
    return edit(
        conn, tenant, action_id, execute_at=execute_at, action_config=action_config, now=NOW
    )


def _run_now(conn, tenant, action_id, branch=None):
    return bring_forward(conn, tenant, action_id, branch=branch, now=NOW)


def _cancel(conn, tenant, action_id):
    return cancel(conn, tenant, action_id, now=NOW)


def _rearm(conn, tenant, action_id):
    return rearm(conn, tenant, action_id, now=NOW)


def test_an_edit_moves_the_time_and_what_finds_it(conn, tenant):
    action_id = insert_action(conn, tenant, announcements=3)

    assert _edit(conn, tenant, action_id, execute_at=LATER)

    assert _times(conn, action_id) == (LATER, None, LATER, LATER)
    row = _row(conn, action_id)
    assert (row["action_config"], row["announcements"]) == (NOTIFY, 0)


def test_an_edit_changes_what_is_done_and_leaves_the_time(conn, tenant):
    action_id = insert_action(conn, tenant, announcements=3)
    webhook = {"type": "webhook", "url": "https://example.com"}

    assert _edit(conn, tenant, action_id, action_config=webhook)

    assert _times(conn, action_id) == (LONG_AGO, None, LONG_AGO, LONG_AGO)
    row = _row(conn, action_id)
    assert (row["action_type"], row["action_config"]) == ("webhook", webhook)


CALL = {"type": "api_call", "method": "POST", "url": "https://example.com"}
CALLED = {
    "action_type": "api_call",
    "action_config": Jsonb(CALL),
    "open_action": 0,
    "announcements": 3,
    "announce_at": NOW + SECOND,
}


@pytest.mark.parametrize("changed", [{"url": "https://example.com/2"}, {"type": "webhook"}])
def test_what_is_sent_otherwise_is_another_call(conn, tenant, changed):
    failed = {"ok": False, "transient": False, "progress": {"until": 1}, "unfinished": True}
    action_id = insert_action(conn, tenant, action_results=Jsonb([failed]), **CALLED)
    before = _row(conn, action_id)

    assert _edit(conn, tenant, action_id, action_config={**CALL, **changed})

    row = _row(conn, action_id)
    assert (row["edits"], row["open_action"], row["announcements"]) == (1, None, 0)
    assert row["lease_token"] != before["lease_token"]
    assert _times(conn, action_id) == (LONG_AGO, None, LONG_AGO, LONG_AGO)
    assert row["action_results"] == [{"ok": False, "transient": True}]


@pytest.mark.parametrize(
    "edited",
    [
        {"execute_at": LATER},
        {"action_config": CALL},
        {"action_config": {**CALL, "on_unknown": "fail", "on_error": "continue"}},
    ],
)
def test_a_call_of_which_nothing_else_is_sent_stays_the_same_call(conn, tenant, edited):
    action_id = insert_action(conn, tenant, **CALLED)
    before = _row(conn, action_id)

    assert _edit(conn, tenant, action_id, **edited)

    row = _row(conn, action_id)
    for name in ("edits", "open_action", "lease_token"):
        assert row[name] == before[name]


@pytest.mark.parametrize("edit_first", [True, False])
def test_an_ok_that_comes_late_ends_only_the_call_that_it_is_of(
    conn, other_conn, tenant, edit_first
):
    action_id = insert_action(conn, tenant, **CALLED)
    token = _row(conn, action_id)["lease_token"]
    ok = Finish(id=action_id, lease_token=token, receipts=[], status="done", error=None)
    changed = {**CALL, "url": "https://example.com/2"}

    def late(session):
        return finish(session, [ok], kind="scheduled_action")

    def change(session):
        return _edit(session, tenant, action_id, action_config=changed)

    first, second = (change, late) if edit_first else (late, change)
    conn.execute("SET lock_timeout = '10ms'")
    with other_conn.transaction():
        assert first(other_conn)
        with pytest.raises(LockNotAvailable):
            second(conn)

    assert not second(conn)
    assert _row(conn, action_id)["status"] == ("pending" if edit_first else "done")


def test_the_deadline_of_a_wait_moves_with_its_time(conn, tenant):
    action_id = insert_wait(conn, tenant)

    assert _edit(conn, tenant, action_id, execute_at=LATER)

    assert _times(conn, action_id) == (LATER, LATER, LATER, LATER)


def test_a_wait_that_was_decided_keeps_its_deadline(conn, tenant):
    action_id = insert_wait(conn, tenant, branch="expired")

    assert _edit(conn, tenant, action_id, execute_at=LATER)

    assert _times(conn, action_id) == (LATER, LONG_AGO, LATER, LATER)


def test_an_action_that_was_announced_for_its_old_time_is_not_claimed_then(conn, tenant):
    action_id = insert_action(conn, tenant)
    token = _row(conn, action_id)["lease_token"]

    _edit(conn, tenant, action_id, execute_at=FAR_OFF)

    assert _claim(conn, action_id, token) == []


def _claim(conn, action_id, token):
    return claim_actions(
        conn,
        [Reference(id=action_id, token=token)],
        worker_id=1,
        lease_token=uuid4(),
        lease_seconds=300,
    )


def test_a_pending_action_is_cancelled(conn, tenant):
    action_id = insert_action(conn, tenant)

    assert _cancel(conn, tenant, action_id)

    row = _row(conn, action_id)
    assert (row["status"], row["error"]) == ("cancelled", "cancelled")
    assert (row["announce_at"], row["next_attempt_at"]) == (None, None)


def test_an_action_is_brought_forward(conn, tenant):
    action_id = insert_action(
        conn, tenant, execute_at=LATER, announce_at=LATER, next_attempt_at=LATER
    )

    assert _run_now(conn, tenant, action_id)

    assert _times(conn, action_id) == (NOW, None, NOW, NOW)
    assert _row(conn, action_id)["urgent"]


def test_a_wait_is_brought_forward_as_if_clicked(conn, tenant):
    action_id = insert_wait(conn, tenant, expires_at=LATER)

    assert _run_now(conn, tenant, action_id, "clicked")

    assert _row(conn, action_id)["branch"] == "clicked"
    assert _times(conn, action_id) == (NOW, LATER, NOW, NOW)


def test_a_wait_that_is_made_to_expire_has_its_deadline_now(conn, tenant):
    action_id = insert_wait(conn, tenant, expires_at=LATER)

    assert _run_now(conn, tenant, action_id, "expired")

    assert _row(conn, action_id)["branch"] == "expired"
    assert _times(conn, action_id) == (NOW, NOW, NOW, NOW)


@pytest.mark.parametrize(("clicked", "moved"), [(NOW, False), (LATER, True)])
def test_a_wait_that_was_clicked_in_time_is_not_made_to_expire(conn, tenant, clicked, moved):
    action_id = insert_wait(conn, tenant, expires_at=LATER, clicked_at=clicked)

    assert _run_now(conn, tenant, action_id, "expired") is moved
    assert _row(conn, action_id)["branch"] == ("expired" if moved else None)


def test_of_an_unlock_and_a_forced_expiry_one_wins(conn, other_conn, tenant):
    action_id = insert_wait(conn, tenant, expires_at=LATER)

    conn.execute("SET lock_timeout = '10ms'")

    with other_conn.transaction():
        other_conn.execute("UPDATE scheduled_action SET branch = 'clicked'")
        with pytest.raises(LockNotAvailable):
            _run_now(conn, tenant, action_id, "expired")

    assert not _run_now(conn, tenant, action_id, "expired")
    assert _row(conn, action_id)["branch"] == "clicked"


@pytest.mark.parametrize(
    ("has", "wanted", "moved"),
    [
        ("clicked", "clicked", True),
        ("expired", "expired", True),
        ("clicked", "expired", False),
        ("expired", "clicked", False),
        ("clicked", None, False),
        (None, None, False),
    ],
)
def test_a_branch_is_chosen_once_and_has_to_be_named(conn, tenant, has, wanted, moved):
    action_id = insert_wait(conn, tenant, branch=has)

    assert _run_now(conn, tenant, action_id, wanted) is moved
    assert _row(conn, action_id)["branch"] == has


def test_what_is_no_wait_has_no_branch_to_take(conn, tenant):
    action_id = insert_action(conn, tenant)

    assert not _run_now(conn, tenant, action_id, "clicked")


def test_a_failed_action_is_armed_again_with_a_fresh_budget(conn, tenant):
    receipt = {"type": "notify", "ok": False, "transient": False}
    action_id = insert_action(
        conn,
        tenant,
        status="failed",
        attempts=4,
        worker_losses=5,
        starts=9,
        action_results=Jsonb([receipt]),
    )
    token = _row(conn, action_id)["lease_token"]

    assert _rearm(conn, tenant, action_id)

    row = _row(conn, action_id)
    assert (row["status"], row["attempts"], row["worker_losses"]) == ("pending", 0, 0)
    assert (row["starts"], row["urgent"], row["error"]) == (9, True, None)
    assert (row["lease_token"], row["retry_count"]) == (token, 0)
    assert row["action_results"] == [receipt | {"transient": True}]
    assert _times(conn, action_id) == (LONG_AGO, None, NOW, NOW)


def test_a_failed_wait_keeps_its_branch(conn, tenant):
    action_id = insert_wait(conn, tenant, status="failed", branch="clicked")

    assert _rearm(conn, tenant, action_id)

    row = _row(conn, action_id)
    assert (row["branch"], row["action_results"]) == ("clicked", [])


MOVES = {
    "edit": lambda *of: _edit(*of, execute_at=LATER),
    "cancel": _cancel,
    "bring_forward": _run_now,
    "rearm": _rearm,
}


@pytest.mark.parametrize("name", MOVES)
def test_a_move_leaves_only_the_status_that_it_names(conn, tenant, name):
    ids = {status: insert_action(conn, tenant, status=status) for status in STATUSES}

    moved = {status for status in STATUSES if MOVES[name](conn, tenant, ids[status])}

    assert moved == ({"failed"} if name == "rearm" else {"pending"})


@pytest.mark.parametrize("name", MOVES)
def test_nobody_moves_an_action_of_another_tenant(conn, tenant, name):
    ids = [insert_action(conn, status=status) for status in STATUSES]
    before = [_row(conn, one) for one in ids]

    assert not any(MOVES[name](conn, tenant, one) for one in ids)
    assert [_row(conn, one) for one in ids] == before


def _cancel_all(conn, tenant, *, limit=100, **filter):
    return cancel_matching(conn, tenant, ActionFilter(**filter), limit=limit, now=NOW)


def test_what_a_filter_finds_is_cancelled_as_far_as_it_is_pending(conn, tenant):
    contact = insert_line_user(conn, tenant)
    ids = [insert_action(conn, tenant, status=s, line_user_id=contact) for s in STATUSES]
    other = insert_action(conn, tenant)

    assert _cancel_all(conn, tenant, line_user_id=contact) == 1

    statuses = [_row(conn, one)["status"] for one in (*ids, other)]
    assert statuses == ["cancelled", *STATUSES[1:], "pending"]


def test_the_oldest_of_many_are_cancelled_first(conn, tenant):
    ids = [insert_action(conn, tenant) for _ in range(3)]

    assert _cancel_all(conn, tenant, limit=2, from_at=LONG_AGO) == 2
    assert [_row(conn, one)["status"] for one in ids] == ["cancelled", "cancelled", "pending"]


def test_actions_of_another_tenant_are_not_cancelled(conn, tenant):
    insert_action(conn)

    assert _cancel_all(conn, tenant, from_at=LONG_AGO) == 0


@pytest.mark.parametrize("status", ["done", "failed", "cancelled"])
def test_actions_that_ended_long_ago_go_the_oldest_first(conn, tenant, status):
    ended = [LONG_AGO + n * SECOND for n in range(3)]
    ids = [insert_action(conn, tenant, status=status, finished_at=at) for at in ended]
    insert_action(conn, tenant)

    assert delete_finished(conn, before=ended[2], limit=1) == 1
    assert [_exists(conn, one) for one in ids] == [False, True, True]
    assert delete_finished(conn, before=ended[2], limit=9) == 1
    assert [_exists(conn, one) for one in ids] == [False, False, True]


def _exists(conn, action_id):
    found = conn.execute("SELECT FROM scheduled_action WHERE id = %s", [action_id])
    return found.fetchone() is not None


@pytest.mark.parametrize("status", ["pending", "processing"])
def test_the_steps_of_an_execution_stay_while_one_is_to_be_done(conn, tenant, status):
    execution = insert_execution(conn, tenant)
    ended = insert_action(conn, tenant, status="done", **execution)
    last = insert_action(conn, tenant, status=status, **execution | {"workflow_node_path": "1"})
    other = insert_action(conn, tenant, status="done", **insert_execution(conn, tenant))

    assert delete_finished(conn, before=NOW, limit=9) == 1
    assert [_exists(conn, one) for one in (ended, last, other)] == [True, True, False]

    conn.execute(
        "UPDATE scheduled_action SET status = 'done', announce_at = NULL, next_attempt_at = NULL,"
        " worker_id = NULL, leased_until = NULL, finished_at = %s WHERE id = %s",
        [LONG_AGO, last],
    )
    assert delete_finished(conn, before=NOW, limit=9) == 2


def test_a_click_on_a_link_of_another_wait_stands_in_nobodys_way(conn, tenant):
    insert_click(conn, insert_link(conn, tenant))
    action_id = insert_wait(conn, tenant, expires_at=LATER)

    assert _run_now(conn, tenant, action_id, "expired")
