from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from psycopg.sql import SQL, Identifier

from shared.errors import Conflict, InvalidInput
from shared.lifecycle import wait_until
from shared.queries.notifications import listen_for_work
from shared.queries.tracking import record_click
from shared.tracking.click_store import PostgresClicks
from shared.usecases.take_event import NewEvent, settle, take_event
from shared.usecases.tenant_limits import WaitingLimit
from tests.builders_db import LONG_AGO, NOW, insert_tenant, row_of
from tests.builders_delayed import insert_click, insert_line_user, insert_link
from tests.builders_rules import NOTIFY, insert_rule
from tests.integration.usecases.world import waits_for_a_lock

CLICKS = PostgresClicks()
WAIT = {"mode": "waitForTracking", "expiresSeconds": 3600, "trackingLink": "$event.link"}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


@pytest.fixture
def contact(conn, tenant_id):
    return insert_line_user(conn, tenant_id)


def an_event(tenant_id, **parts):
    event = {"tenant_id": tenant_id, "name": "ordered", "line_user_id": None, "data": {}}
    return NewEvent(**event | {"key": None} | parts)


def take(conn, event, *, now=NOW, clicks=CLICKS):
    return take_event(conn, event, clicks=clicks, waiting=WaitingLimit(), now=now)


def taken(conn, tenant_id, **parts):
    """Take an event and return (ids of rules that matched, rows of its actions)."""
    event = take(conn, an_event(tenant_id, **parts)).event
    return event.rule_ids, [row_of(conn, "scheduled_action", id) for id in event.action_ids]


def count(conn, relation):
    statement = SQL("SELECT count(*) FROM {}").format(Identifier(relation))
    return conn.execute(statement).fetchone()[0]


def link_token(conn, link_id):
    return row_of(conn, "tracking_link", link_id)["token"]


def test_each_action_of_a_matching_rule_is_scheduled_to_run_now(conn, tenant_id, contact):
    greet = {**NOTIFY, "message": "welcome $event.who"}
    rule_id = insert_rule(conn, tenant_id, actions=[NOTIFY, greet])

    rule_ids, rows = taken(conn, tenant_id, line_user_id=contact, data={"who": "Lin"})

    assert rule_ids == [rule_id]
    assert sorted(row["action_config"]["message"] for row in rows) == ["hi", "welcome $event.who"]
    for row in rows:
        assert (row["status"], row["mode"], row["urgent"]) == ("pending", "normal", True)
        assert row["execute_at"] == row["announce_at"] == row["created_at"]
        assert (row["rule_id"], row["line_user_id"]) == (rule_id, contact)
        told = {"event": {"who": "Lin"}, "event_name": "ordered", "rule_name": "rule"}
        assert row["context"] == told
        assert (row["source_config"], row["depth"]) == (None, 0)


def test_a_taken_event_wakes_whoever_announces(conn, other_conn, tenant_id):
    insert_rule(conn, tenant_id)
    listen_for_work(other_conn)

    take(conn, an_event(tenant_id))

    assert len(list(other_conn.notifies(timeout=5, stop_after=1))) == 1


def test_all_matching_rules_count_in_the_order_of_their_making(conn, tenant_id):
    first = insert_rule(conn, tenant_id, name="b")
    second = insert_rule(conn, tenant_id, name="a")

    rule_ids, rows = taken(conn, tenant_id)

    assert rule_ids == [first, second]
    assert len(rows) == 2


def test_rules_of_other_events_and_tenants_and_disabled_ones_stay_silent(conn, tenant_id):
    insert_rule(conn, tenant_id, name="other", event="Ordered")
    insert_rule(conn, tenant_id, name="disabled", enabled=False)
    insert_rule(conn, insert_tenant(conn))

    assert taken(conn, tenant_id) == ([], [])
    assert count(conn, "event") == 1


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ({"column": "event.sum", "op": "gte", "value": 100}, True),
        ({"column": "event.sum", "op": "gt", "value": 100}, False),
        ({"column": "event.sum", "op": "eq", "value": "100"}, False),
        ({"column": "event.nothing", "op": "is_empty"}, True),
        ({"column": "event.tags", "op": "contains", "value": "new"}, True),
        ({"column": "line_user.plan", "op": "in", "value": ["pro", "team"]}, True),
        ({"column": "line_user.plan", "op": "eq", "value": "free"}, False),
        ({"column": "line_user.external_id", "op": "eq", "value": "crm-1"}, True),
    ],
)
def test_conditions_are_judged_on_event_and_contact(conn, tenant_id, condition, matches):
    contact = insert_line_user(conn, tenant_id, external_id="crm-1", attributes='{"plan": "pro"}')
    insert_rule(conn, tenant_id, conditions=[condition])

    data = {"sum": 100, "tags": ["new"]}
    rule_ids, _ = taken(conn, tenant_id, line_user_id=contact, data=data)

    assert bool(rule_ids) is matches


def test_an_event_without_a_contact_matches_no_condition_on_one(conn, tenant_id):
    conditions = [{"column": "line_user.plan", "op": "eq", "value": "pro"}]
    insert_rule(conn, tenant_id, conditions=conditions)

    assert taken(conn, tenant_id) == ([], [])


def test_a_rule_that_cannot_be_read_is_passed_over_and_holds_up_no_other(conn, tenant_id):
    insert_rule(conn, tenant_id, conditions=[{"column": "event.sum", "op": "of tomorrow"}])
    sound = insert_rule(conn, tenant_id, name="sound")

    rule_ids, rows = taken(conn, tenant_id, data={"sum": 1})

    assert rule_ids == [sound]
    assert [row["rule_id"] for row in rows] == [sound]


def test_a_delayed_action_waits_for_its_time(conn, tenant_id):
    insert_rule(conn, tenant_id, actions=[{**NOTIFY, "delay": {"seconds": 60}}])

    _, [row] = taken(conn, tenant_id)

    assert row["execute_at"] == row["next_attempt_at"] == (NOW + MINUTE).isoformat()
    assert (row["mode"], row["urgent"], row["expires_at"]) == ("normal", False, None)
    assert row["action_config"] == NOTIFY
    assert row["source_config"] is None


def test_conditions_to_be_judged_again_are_kept(conn, tenant_id):
    conditions = [{"column": "event.sum", "op": "eq", "value": 1}]
    delay = {"seconds": 60, "reEvaluateConditions": True}
    actions = [{**NOTIFY, "delay": delay}, NOTIFY]
    insert_rule(conn, tenant_id, conditions=conditions, actions=actions)

    _, rows = taken(conn, tenant_id, data={"sum": 1})

    kept = {row["execute_at"] > row["created_at"]: row["source_config"] for row in rows}
    assert kept == {True: {"when": conditions}, False: None}


def test_a_wait_for_a_click_stands_at_its_deadline(conn, tenant_id):
    link_id = insert_link(conn, tenant_id)
    delay = {**WAIT, "on_expire": [NOTIFY]}
    insert_rule(conn, tenant_id, actions=[{**NOTIFY, "delay": delay}])

    _, [row] = taken(conn, tenant_id, data={"link": link_token(conn, link_id)})

    assert row["execute_at"] == row["expires_at"] == (NOW + 60 * MINUTE).isoformat()
    assert (row["mode"], row["branch"]) == ("waitForTracking", None)
    assert (row["tracking_link_id"], row["on_expire"]) == (link_id, [NOTIFY])


def test_a_wait_for_what_was_clicked_before_is_due_at_once(conn, tenant_id):
    link_id = insert_link(conn, tenant_id)
    insert_click(conn, link_id, unlocked_at=LONG_AGO)
    insert_rule(conn, tenant_id, actions=[{**NOTIFY, "delay": WAIT}])

    _, [row] = taken(conn, tenant_id, data={"link": link_token(conn, link_id)})

    assert (row["branch"], row["urgent"]) == ("clicked", True)
    assert row["execute_at"] == row["announce_at"] == NOW.isoformat()
    assert row["expires_at"] == (NOW + 60 * MINUTE).isoformat()


def test_a_click_between_the_look_and_the_commit_is_found_behind_it(conn, tenant_id, other_conn):
    link_id = insert_link(conn, tenant_id)
    insert_rule(conn, tenant_id, actions=[{**NOTIFY, "delay": WAIT}])
    event = an_event(tenant_id, data={"link": link_token(conn, link_id)})

    with conn.transaction():
        event_taken = take(conn, event)
        record_click(other_conn, link_id, clicked_at=NOW)
    [action_id] = event_taken.event.action_ids
    assert row_of(conn, "scheduled_action", action_id)["branch"] is None

    settle(conn, event, event_taken, clicks=CLICKS)

    row = row_of(conn, "scheduled_action", action_id)
    assert (row["branch"], row["urgent"]) == ("clicked", True)


class Watching(PostgresClicks):
    """Notes the order in which links are looked at: each is locked by then."""

    def __init__(self):
        self.seen = []

    def clicked_at(self, conn, link):
        self.seen.append(link.id)
        return super().clicked_at(conn, link)


def test_several_links_are_locked_in_the_order_of_their_ids(conn, tenant_id):
    links = [insert_link(conn, tenant_id) for _ in range(3)]
    data = {f"at{place}": link_token(conn, link) for place, link in enumerate(reversed(links))}
    waits = [{**WAIT, "trackingLink": f"$event.{name}"} for name in data]
    insert_rule(conn, tenant_id, actions=[{**NOTIFY, "delay": wait} for wait in waits])
    clicks = Watching()

    event = take(conn, an_event(tenant_id, data=data), clicks=clicks).event

    assert clicks.seen == links
    rows = [row_of(conn, "scheduled_action", id) for id in event.action_ids]
    assert {row["tracking_link_id"] for row in rows} == set(links)


def test_a_wait_for_a_link_that_is_not_there_refuses_the_event_as_a_whole(conn, tenant_id):
    foreign = insert_link(conn, insert_tenant(conn))
    insert_rule(conn, tenant_id, name="sound")
    insert_rule(conn, tenant_id, actions=[{**NOTIFY, "delay": WAIT}])

    for link in (link_token(conn, foreign), "nothing", None, {"a": 1}):
        with pytest.raises(InvalidInput) as refused:
            take(conn, an_event(tenant_id, data={"link": link}, key="k"))
        assert refused.value.code == "tracking_link_unknown"
    assert count(conn, "event") == count(conn, "scheduled_action") == 0


def test_a_contact_that_the_tenant_does_not_have_is_refused(conn, tenant_id):
    foreign = insert_line_user(conn)
    deleted = insert_line_user(conn, tenant_id, deleted_at=LONG_AGO)

    for line_user_id in (foreign, deleted, deleted + 1):
        with pytest.raises(InvalidInput) as refused:
            take(conn, an_event(tenant_id, line_user_id=line_user_id))
        assert refused.value.faults[0].code == "line_user_unknown"
        assert refused.value.faults[0].pointer == "/line_user_id"
    assert count(conn, "event") == 0


@pytest.mark.parametrize(
    "data", [{"a": "x" * 65_530}, {"a": [0] * 10_000}], ids=["characters", "values"]
)
def test_data_that_is_too_large_is_refused(conn, tenant_id, data):
    with pytest.raises(InvalidInput) as refused:
        take(conn, an_event(tenant_id, data=data))

    assert refused.value.faults[0].code == "event_data_too_large"
    assert refused.value.faults[0].pointer == "/data"


def test_data_that_too_many_actions_would_keep_is_refused(conn, tenant_id):
    for number in range(13):
        insert_rule(conn, tenant_id, name=f"rule {number}", actions=20 * [NOTIFY])
    data = {"text": "x" * 65_000}

    with pytest.raises(InvalidInput) as refused:
        take(conn, an_event(tenant_id, data=data))

    [fault] = refused.value.faults
    assert (fault.code, fault.pointer) == ("event_data_too_large", "/data")
    assert "260 actions" in fault.message
    assert count(conn, "event") == count(conn, "scheduled_action") == 0
    assert len(taken(conn, tenant_id, data={"text": "x" * 60_000})[1]) == 260


def test_the_same_event_under_a_key_is_taken_once(conn, tenant_id, contact):
    rule_id = insert_rule(conn, tenant_id)
    event = an_event(tenant_id, line_user_id=contact, data={"a": 1, "b": 2}, key="k")
    first = take(conn, event)

    conn.execute("DELETE FROM trigger_rule WHERE id = %s", [rule_id])
    again = an_event(tenant_id, line_user_id=contact, data={"b": 2, "a": 1}, key="k")
    second = take(conn, again, now=NOW + MINUTE)

    assert second == first
    assert first.event.rule_ids == [rule_id]
    assert count(conn, "event") == count(conn, "scheduled_action") == 1


@pytest.mark.parametrize("part", [{"name": "paid"}, {"data": {"a": True}}, {"line_user_id": None}])
def test_another_event_under_the_key_is_refused(conn, tenant_id, contact, part):
    event = {"line_user_id": contact, "data": {"a": 1}, "key": "k"}
    take(conn, an_event(tenant_id, **event))

    with pytest.raises(Conflict) as refused:
        take(conn, an_event(tenant_id, **event | part))

    assert refused.value.code == "idempotency_key_reused"
    assert count(conn, "event") == 1


def test_tenants_have_keys_of_their_own(conn, tenant_id):
    for each in (tenant_id, insert_tenant(conn)):
        take(conn, an_event(each, key="k"))

    assert count(conn, "event") == 2


def test_events_without_a_key_are_taken_each_time(conn, tenant_id):
    insert_rule(conn, tenant_id)

    take(conn, an_event(tenant_id))
    take(conn, an_event(tenant_id))

    assert count(conn, "scheduled_action") == 2


def test_of_two_at_the_same_time_under_one_key_one_is_taken(conn, other_conn, tenant_id):
    insert_rule(conn, tenant_id)
    event = an_event(tenant_id, key="k")

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            first = take(conn, event)
            second = pool.submit(take, other_conn, event, now=NOW + MINUTE)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        assert second.result() == first
    assert count(conn, "event") == count(conn, "scheduled_action") == 1


def test_of_two_different_ones_at_the_same_time_under_one_key_the_second_is_refused(
    conn, other_conn, tenant_id
):
    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            take(conn, an_event(tenant_id, key="k"))
            second = pool.submit(take, other_conn, an_event(tenant_id, name="paid", key="k"))
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        with pytest.raises(Conflict):
            second.result()


def test_a_key_whose_event_was_rolled_back_is_free(conn, other_conn, tenant_id):
    insert_rule(conn, tenant_id)
    event = an_event(tenant_id, key="k")

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction(force_rollback=True):
            take(conn, event)
            second = pool.submit(take, other_conn, event)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        assert len(second.result().event.action_ids) == 1
    assert count(conn, "event") == count(conn, "scheduled_action") == 1
