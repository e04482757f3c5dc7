from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count

import pytest

from shared.effects.delays import after_schedule
from shared.effects.record_writes import ChainTooDeep
from shared.effects.workflow_steps import follow_up, start_execution
from shared.errors import NotFound
from shared.lifecycle import wait_until
from shared.queries.claimed_actions import load_claimed
from shared.queries.line_users import find_line_user
from shared.queries.scheduled_actions import insert_actions
from shared.queries.tracking import record_click
from shared.queries.workflows import get_workflow, update_workflow
from shared.tracking.click_store import PostgresClicks
from tests.builders_db import LONG_AGO, NOW, delete_all, insert_tenant, row_of
from tests.builders_delayed import insert_line_user, insert_workflow
from tests.builders_rules import NOTIFY, action_node, wait_node
from tests.integration.usecases.world import waits_for_a_lock

CLICKS = PostgresClicks()
HOUR = timedelta(hours=1)
VIP = [{"column": "line_user.plan", "op": "eq", "value": "vip"}]
BRANCH = {
    "type": "branch",
    "when": VIP,
    "then": [action_node(message="vip")],
    "else": [action_node(message="else")],
}
STOP = {"type": "stop"}
DELAY = {"type": "delay", "seconds": 3600}


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


@pytest.fixture
def contact(conn, tenant_id):
    return find_line_user(conn, tenant_id, insert_line_user(conn, tenant_id))


@pytest.fixture
def start(conn, tenant_id, contact):
    """Start an execution of a workflow with these nodes; return the rows of its steps."""
    keys = count()

    def make(*nodes, **parts):
        workflow_id = insert_workflow(conn, tenant_id, nodes=nodes)
        workflow = get_workflow(conn, tenant_id, workflow_id)
        values = {"context": {}, "origin_key": f"start {next(keys)}", "depth": 0, "now": NOW}
        values |= {"line_user": contact, "clicks": CLICKS}
        return start_execution(conn, workflow, **values | parts).execution_id

    return make


def steps_of(conn, execution_id):
    rows = conn.execute(
        "SELECT id FROM scheduled_action WHERE execution_id = %s ORDER BY id", [execution_id]
    )
    return [row_of(conn, "scheduled_action", id) for (id,) in rows.fetchall()]


def links_of(conn, execution_id):
    rows = conn.execute(
        "SELECT id FROM tracking_link WHERE execution_id = %s ORDER BY id", [execution_id]
    )
    return [row_of(conn, "tracking_link", id) for (id,) in rows.fetchall()]


def claimed(conn, execution_id):
    """Hold the newest step of an execution and return it as a worker has it."""
    step = steps_of(conn, execution_id)[-1]
    conn.execute(
        "UPDATE scheduled_action SET status = 'processing', worker_id = 1, announce_at = NULL,"
        " next_attempt_at = NULL, leased_until = '2100-01-01Z' WHERE id = %s",
        [step["id"]],
    )
    [action] = load_claimed(conn, [step["id"]], lease_token=step["lease_token"])
    return action


def following(conn, execution_id, *, branch=None, now=NOW):
    return follow_up(conn, claimed(conn, execution_id), branch=branch, clicks=CLICKS, now=now)


def test_a_started_workflow_has_its_first_step_and_a_link_for_each_wait(conn, start, contact):
    inner = wait_node(link="inner")
    execution_id = start(action_node(), wait_node(clicked=[inner]))

    [step] = steps_of(conn, execution_id)
    assert (step["workflow_node_path"], step["workflow_version"]) == ("0", 1)
    assert (step["action_type"], step["action_config"]) == ("notify", NOTIFY)
    assert (step["urgent"], step["execute_at"]) == (True, NOW.isoformat())
    assert (step["line_user_id"], step["context"]) == (contact.id, {})
    links = links_of(conn, execution_id)
    assert [(each["name"], each["workflow_node_path"]) for each in links] == [
        ("offer", "1"),
        ("inner", "1.clicked.0"),
    ]
    assert {each["line_user_id"] for each in links} == {contact.id}
    assert len({each["token"] for each in links}) == 2


def test_who_starts_again_what_is_lost_repeats_its_steps_under_their_keys(conn, start):
    before = start(action_node(), origin_key="k")
    for relation in ("scheduled_action", "workflow_execution"):
        delete_all(conn, relation)

    assert start(action_node(), origin_key="k") == before
    assert steps_of(conn, before)[0]["origin_key"] == f"execution:{before}:0"


def test_a_key_starts_one_execution(conn, start, tenant_id):
    first = start(wait_node(), origin_key="k")
    second = start(action_node(), origin_key="k")

    assert second == first
    assert len(steps_of(conn, first)) == len(links_of(conn, first)) == 1


def test_a_workflow_without_anything_to_do_ends_at_once(conn, start):
    assert steps_of(conn, start(STOP, action_node())) == []
    assert steps_of(conn, start({**BRANCH, "else": []})) == []


def test_a_workflow_may_begin_with_a_delay(conn, start):
    [step] = steps_of(conn, start(DELAY))

    assert (step["action_type"], step["action_config"]) == ("delay", {"seconds": 3600})
    assert step["execute_at"] == step["announce_at"] == (NOW + HOUR).isoformat()
    assert (step["mode"], step["urgent"]) == ("normal", False)


def test_a_workflow_may_begin_with_a_wait(conn, start):
    execution_id = start(wait_node())

    [step] = steps_of(conn, execution_id)
    [link] = links_of(conn, execution_id)
    assert (step["action_type"], step["mode"]) == ("wait_for_tracking", "waitForTracking")
    assert step["action_config"] == {"seconds": 3600, "link": "offer"}
    assert step["execute_at"] == step["expires_at"] == (NOW + HOUR).isoformat()
    assert (step["tracking_link_id"], step["branch"]) == (link["id"], None)


def test_an_action_of_a_workflow_may_have_a_delay(conn, start):
    [step] = steps_of(conn, start(action_node(delay={"seconds": 60})))

    assert step["execute_at"] == (NOW + timedelta(minutes=1)).isoformat()
    assert step["action_config"] == NOTIFY


def test_a_branch_is_judged_on_contact_and_context(conn, start, tenant_id):
    vip = insert_line_user(conn, tenant_id, attributes='{"plan": "vip"}')
    on_event = {**BRANCH, "when": [{"column": "event.sum", "op": "gt", "value": 10}]}

    vips = start(BRANCH, line_user=find_line_user(conn, tenant_id, vip))
    nobodys = start(BRANCH, line_user=None)
    rich = start(on_event, context={"sum": 11})
    poor = start(on_event, context={"sum": 10})

    paths = [steps_of(conn, each)[0]["workflow_node_path"] for each in (vips, nobodys, rich, poor)]
    assert paths == ["0.then.0", "0.else.0", "0.then.0", "0.else.0"]


def test_a_chain_of_workflows_is_cut(conn, start):
    assert steps_of(conn, start(action_node(), depth=8))[0]["depth"] == 8

    with pytest.raises(ChainTooDeep):
        start(action_node(), depth=9)


def test_a_contact_deleted_meanwhile_starts_nothing(conn, start, contact):
    conn.execute("UPDATE line_user SET deleted_at = %s", [LONG_AGO])

    with pytest.raises(NotFound):
        start(wait_node(), line_user=contact)
    assert conn.execute("SELECT count(*) FROM workflow_execution").fetchone() == (0,)


def test_the_step_behind_an_action_follows_it(conn, start, contact):
    execution_id = start(action_node(), DELAY, depth=3)

    step = following(conn, execution_id, now=NOW + HOUR)

    assert (step.workflow_node_path, step.action_type) == ("1", "delay")
    assert step.execute_at == NOW + 2 * HOUR
    assert (step.execution_id, step.line_user_id) == (execution_id, contact.id)
    assert (step.workflow_version, step.depth) == (1, 3)


def test_nothing_follows_the_last_step(conn, start):
    assert following(conn, start(action_node())) is None
    assert following(conn, start(action_node(), STOP, action_node())) is None


@pytest.mark.parametrize(("branch", "path"), [("clicked", "0.clicked.0"), ("expired", "1")])
def test_a_wait_goes_on_along_its_branch(conn, start, branch, path):
    execution_id = start(wait_node(clicked=[action_node()]), action_node())

    assert following(conn, execution_id, branch=branch).workflow_node_path == path


def test_a_branch_sees_the_contact_as_it_is_when_it_is_judged(conn, start):
    execution_id = start(action_node(), BRANCH)
    action = claimed(conn, execution_id)
    conn.execute("""UPDATE line_user SET attributes = '{"plan": "vip"}'""")

    step = follow_up(conn, action, branch=None, clicks=CLICKS, now=NOW)

    assert step.workflow_node_path == "1.then.0"


def test_an_execution_finishes_on_the_version_it_began_with(conn, start, tenant_id):
    execution_id = start(action_node(), action_node(message="old"))
    workflow_id = steps_of(conn, execution_id)[0]["workflow_id"]
    workflow = get_workflow(conn, tenant_id, workflow_id)
    workflow.nodes[:] = [action_node(), action_node(message="new")]
    update_workflow(conn, workflow, now=NOW)

    step = following(conn, execution_id)

    assert step.action_config["message"] == "old"
    assert step.workflow_version == 1


def test_a_wait_whose_link_was_clicked_before_goes_on_at_once(conn, start):
    execution_id = start(action_node(), wait_node())
    [link] = links_of(conn, execution_id)
    record_click(conn, link["id"], clicked_at=NOW - HOUR)

    step = following(conn, execution_id)

    assert (step.mode, step.branch, step.urgent) == ("waitForTracking", "clicked", True)
    assert (step.execute_at, step.expires_at) == (NOW, NOW + HOUR)


def test_a_click_between_the_look_and_the_commit_unlocks_the_next_wait(
    conn, start, other_conn, tenant_id
):
    execution_id = start(action_node(), wait_node())
    [link] = links_of(conn, execution_id)

    step = following(conn, execution_id)
    with conn.transaction():
        insert_actions(conn, [step], now=NOW)
        record_click(other_conn, link["id"], clicked_at=NOW)
    ids = {"tenant_id": tenant_id, "link_id": link["id"]}

    assert after_schedule(conn, **ids, clicks=CLICKS)
    assert steps_of(conn, execution_id)[-1]["branch"] == "clicked"
    assert not after_schedule(conn, **ids, clicks=CLICKS)


def test_a_node_has_one_step(conn, start):
    execution_id = start(action_node(), action_node())
    step = following(conn, execution_id)

    assert len(insert_actions(conn, [step], now=NOW)) == 1
    assert insert_actions(conn, [step], now=NOW) == []
    assert len(steps_of(conn, execution_id)) == 2


def test_of_two_starts_at_the_same_time_under_one_key_one_counts(conn, other_conn, tenant_id):
    workflow_id = insert_workflow(conn, tenant_id, nodes=[wait_node()])
    workflow = get_workflow(conn, tenant_id, workflow_id)
    values = {"line_user": None, "context": {}, "origin_key": "k", "depth": 0, "now": NOW}
    values["clicks"] = CLICKS

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            first = start_execution(conn, workflow, **values).execution_id
            second = pool.submit(start_execution, other_conn, workflow, **values)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        assert second.result().execution_id == first
    assert len(steps_of(conn, first)) == len(links_of(conn, first)) == 1
