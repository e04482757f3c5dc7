from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from psycopg.errors import ForeignKeyViolation

from shared.queries.scheduled_actions import (
    decide_branches,
    find_action_id,
    insert_actions,
)
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    NOW,
    insert_tenant,
    row_of,
)
from tests.builders_delayed import (
    NOTIFY,
    a_new_action,
    insert_action,
    insert_execution,
    insert_line_user,
    insert_link,
    insert_wait,
)

LEASE = UUID(int=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def tenant(conn):
    return insert_tenant(conn)


def _row(conn, action_id):
    return row_of(conn, "scheduled_action", action_id)


def _held(conn, tenant, **columns):
    return insert_action(conn, tenant, status="processing", lease_token=LEASE, **columns)


def test_an_action_is_born_pending_and_due_at_its_time(conn, tenant):
    action = a_new_action(tenant, depth=2, urgent=True, context={"event": {"a": 1}}, rule_id=7)

    [reference] = insert_actions(conn, [action], now=NOW)

    row = _row(conn, reference.id)
    assert (row["status"], row["attempts"], row["retry_count"], row["starts"]) == (
        "pending",
        0,
        0,
        0,
    )
    assert row["lease_token"] == str(reference.token)
    assert row["execute_at"] == row["next_attempt_at"] == row["announce_at"]
    assert (row["depth"], row["urgent"], row["rule_id"]) == (2, True, 7)
    assert (row["action_config"], row["context"]) == (NOTIFY, {"event": {"a": 1}})
    assert (row["source_config"], row["on_expire"], row["action_results"]) == (None, None, [])
    times = conn.execute("SELECT execute_at, created_at FROM scheduled_action").fetchone()
    assert times == (action.execute_at, NOW)


def test_a_wait_is_recorded_with_its_deadline_and_what_follows_it(conn, tenant):
    wait = a_new_action(
        tenant,
        mode="waitForTracking",
        execute_at=FAR_OFF,
        expires_at=FAR_OFF,
        tracking_link_id=insert_link(conn, tenant),
        on_expire=(NOTIFY,),
        source_config={"when": []},
    )

    [reference] = insert_actions(conn, [wait], now=NOW)

    row = _row(conn, reference.id)
    assert (row["mode"], row["branch"]) == ("waitForTracking", None)
    assert (row["on_expire"], row["source_config"]) == ([NOTIFY], {"when": []})


def test_an_origin_is_recorded_once_and_the_others_of_its_batch_are(conn, tenant):
    known, new = a_new_action(tenant), a_new_action(tenant)
    insert_actions(conn, [known], now=NOW)

    inserted = insert_actions(conn, [known, new], now=NOW)

    assert [reference.id for reference in inserted] == [
        find_action_id(conn, tenant, new.origin_key)
    ]
    assert conn.execute("SELECT count(*) FROM scheduled_action").fetchone() == (2,)


def test_the_same_origin_of_another_tenant_is_another(conn, tenant):
    action = a_new_action(tenant)
    theirs = replace(action, tenant_id=insert_tenant(conn))

    assert len(insert_actions(conn, [action, theirs], now=NOW)) == 2
    assert find_action_id(conn, insert_tenant(conn), action.origin_key) is None


def test_a_node_of_an_execution_has_one_step(conn, tenant):
    execution = insert_execution(conn, tenant)
    first, second = (a_new_action(tenant, **execution) for _ in range(2))

    assert len(insert_actions(conn, [first], now=NOW)) == 1
    assert insert_actions(conn, [second], now=NOW) == []


def test_an_action_on_another_tenants_contact_is_refused(conn, tenant):
    with pytest.raises(ForeignKeyViolation):
        insert_actions(conn, [a_new_action(tenant, line_user_id=insert_line_user(conn))], now=NOW)


def test_no_actions_are_no_statement(conn):
    assert insert_actions(conn, [], now=NOW) == []


def _decided(conn, tenant, *, lease=LEASE, **wait):
    action_id = insert_wait(conn, tenant, status="processing", lease_token=LEASE, **wait)
    decide_branches(conn, [(action_id, lease)])
    return _row(conn, action_id)["branch"]


def test_a_wait_whose_deadline_came_without_a_click_expires(conn, tenant):
    assert _decided(conn, tenant) == "expired"


@pytest.mark.parametrize(
    ("clicked", "branch"), [(-SECOND, "clicked"), (0 * SECOND, "expired"), (SECOND, "expired")]
)
def test_a_click_counts_when_it_came_before_the_deadline(conn, tenant, clicked, branch):
    assert _decided(conn, tenant, clicked_at=LONG_AGO + clicked) == branch


def test_a_wait_does_not_expire_before_its_deadline(conn, tenant):
    assert _decided(conn, tenant, expires_at=FAR_OFF) is None


def test_a_branch_is_decided_once(conn, tenant):
    assert _decided(conn, tenant, branch="clicked") == "clicked"
    assert _decided(conn, tenant, branch="expired", clicked_at=LONG_AGO - SECOND) == "expired"


def test_who_holds_a_wait_no_longer_decides_nothing(conn, tenant):
    pending = insert_wait(conn, tenant, lease_token=LEASE)

    decide_branches(conn, [(pending, LEASE)])

    assert _row(conn, pending)["branch"] is None
    assert _decided(conn, tenant, lease=uuid4()) is None


def test_what_is_no_wait_gets_no_branch(conn, tenant):
    action_id = _held(conn, tenant)

    decide_branches(conn, [(action_id, LEASE)])

    assert _row(conn, action_id)["branch"] is None


def test_a_click_that_commits_after_the_decision_has_lost(conn, other_conn, tenant):
    action_id = insert_wait(conn, tenant, status="processing", lease_token=LEASE)
    link_id = _row(conn, action_id)["tracking_link_id"]

    with other_conn.transaction():
        other_conn.execute(
            "INSERT INTO tracking_click (link_id, first_clicked_at) VALUES (%s, %s)",
            [link_id, LONG_AGO - SECOND],
        )
        decide_branches(conn, [(action_id, LEASE)])

    assert _row(conn, action_id)["branch"] == "expired"
