import pytest

from tests.builders_db import row_of
from tests.builders_delayed import insert_link
from tests.builders_rules import NOTIFY, action_node, wait_node
from tests.integration.api.callers import faults, problem

NODES = [
    action_node(message="look: $link.offer"),
    wait_node(clicked=[{"type": "stop"}], not_clicked=[action_node(message="still there")]),
    {
        "type": "branch",
        "when": [{"column": "line_user.plan", "op": "eq", "value": "pro"}],
        "then": [{"type": "delay", "seconds": 60}, action_node()],
        "else": [],
    },
]
WORKFLOW = {"name": "offer", "nodes": NODES}
WAIT = {"mode": "waitForTracking", "expiresSeconds": 60}


@pytest.fixture
def workflow(moderator):
    return moderator.post("/v1/workflows", json=WORKFLOW)


@pytest.fixture
def path(workflow):
    return f"/v1/workflows/{workflow.json['id']}"


def starting(name):
    return {"type": "action", "action": {"type": "start_workflow", "workflow": name}}


def nested(levels):
    """Return nodes in so many lists inside each other."""
    nodes = [action_node()]
    for _ in range(levels - 1):
        nodes = [{"type": "branch", "when": [], "then": nodes, "else": []}]
    return nodes


def test_a_workflow_is_found_by_its_id(moderator, workflow, path):
    found = moderator.get(path)

    assert workflow.status_code == 201
    assert found.json == workflow.json
    assert {key: found.json[key] for key in WORKFLOW} == WORKFLOW
    assert (found.json["version"], found.headers["ETag"]) == (1, '"1"')


def test_a_name_is_used_once_in_a_tenant(moderator, stranger, workflow):
    again = moderator.post("/v1/workflows", json=WORKFLOW)

    assert problem(again)[:2] == (409, "workflow_exists")
    assert stranger.post("/v1/workflows", json=WORKFLOW).status_code == 201


def test_workflows_are_listed_in_pages(moderator):
    for number in range(3):
        moderator.post("/v1/workflows", json={**WORKFLOW, "name": f"w{number}"})

    first = moderator.get("/v1/workflows?limit=2").json
    second = moderator.get(f"/v1/workflows?limit=2&cursor={first['next_cursor']}").json

    names = [item["name"] for item in first["items"] + second["items"]]
    assert names == ["w0", "w1", "w2"]


def test_a_replaced_workflow_has_a_new_version_and_keeps_the_old_one(moderator, workflow, path):
    replaced = moderator.put(path, json={"name": "offers", "nodes": [action_node()]})

    assert (replaced.json["version"], replaced.headers["ETag"]) == (2, '"2"')
    assert moderator.get(path).json == replaced.json
    first = moderator.get(f"{path}/versions/1").json
    assert (first["version"], first["nodes"], first["name"]) == (1, NODES, "offers")
    assert moderator.get(f"{path}/versions/2").json == replaced.json
    missing = moderator.get(f"{path}/versions/3")
    assert problem(missing)[:2] == (404, "workflow_version_not_found")


def test_saving_what_is_stored_makes_no_version(moderator, workflow, path):
    assert moderator.put(path, json=WORKFLOW).json == workflow.json


def test_a_change_of_a_stale_version_is_refused(moderator, workflow, path):
    body = {**WORKFLOW, "nodes": [action_node()]}
    moderator.put(path, json=body)

    stale = moderator.put(path, json=WORKFLOW, headers={"If-Match": '"1"'})
    present = moderator.put(path, json=WORKFLOW, headers={"If-Match": '"2"'})

    assert problem(stale)[:2] == (412, "stale_version")
    assert present.status_code == 200


def test_a_workflow_cannot_take_the_name_of_another(moderator, workflow, path):
    moderator.post("/v1/workflows", json={**WORKFLOW, "name": "other"})

    answer = moderator.put(path, json={**WORKFLOW, "name": "other"})

    assert problem(answer)[:2] == (409, "workflow_exists")


def test_a_deleted_workflow_is_gone_and_its_name_free(moderator, workflow, path):
    assert moderator.delete(path).status_code == 204

    for answer in (moderator.get(path), moderator.put(path, json=WORKFLOW), moderator.delete(path)):
        assert problem(answer)[:2] == (404, "workflow_not_found")
    assert problem(moderator.get(f"{path}/versions/1"))[:2] == (404, "workflow_version_not_found")
    assert moderator.get("/v1/workflows").json["items"] == []
    assert moderator.post("/v1/workflows", json=WORKFLOW).status_code == 201


def test_a_workflow_of_another_tenant_is_absent(stranger, workflow, path):
    for answer in (stranger.get(path), stranger.put(path, json=WORKFLOW), stranger.delete(path)):
        assert problem(answer)[:2] == (404, "workflow_not_found")
    assert problem(stranger.get(f"{path}/versions/1"))[:2] == (404, "workflow_version_not_found")


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        (None, [("/nodes", "field_invalid")]),
        ({}, [("/nodes", "workflow_invalid")]),
        ([], [("/nodes", "workflow_invalid")]),
        ([{"type": "stop"}] * 201, [("/nodes", "workflow_invalid")]),
        (nested(9), [("/nodes" + "/0/then" * 8, "workflow_invalid")]),
        ([{"type": "wait"}], [("/nodes/0/type", "workflow_invalid")]),
        ([{"type": "delay", "seconds": 0}], [("/nodes/0/seconds", "delay_out_of_bounds")]),
        ([{"type": "delay", "seconds": True}], [("/nodes/0/seconds", "delay_invalid")]),
        (
            [{**wait_node(), "target_url": "javascript:alert(1)"}],
            [("/nodes/0/target_url", "workflow_invalid")],
        ),
        (
            [wait_node(), wait_node()],
            [("/nodes/0/link", "workflow_invalid"), ("/nodes/1/link", "workflow_invalid")],
        ),
        (
            [action_node(message="$link.nothing")],
            [("/nodes/0/action/message", "template_link_unknown")],
        ),
        ([action_node(message="$row.a")], [("/nodes/0/action/message", "row_token_not_allowed")]),
        (
            [wait_node(clicked=[action_node(type="mail")])],
            [("/nodes/0/clicked/0/action/type", "action_type_unknown")],
        ),
        (
            [{"type": "branch", "when": [{"column": "plan", "op": "is_empty"}]}],
            [("/nodes/0/when/0/column", "when_column_missing")],
        ),
        (
            [{"type": "branch", "when": [], "then": [wait_node()]}, action_node(delay=WAIT)],
            [("/nodes/1/action/delay/trackingLink", "delay_invalid")],
        ),
        (
            [action_node(delay={**WAIT, "trackingLink": "$link.nothing"})],
            [("/nodes/0/action/delay/trackingLink", "template_link_unknown")],
        ),
        (
            [wait_node(clicked=[action_node(delay={**WAIT, "trackingLink": "nothing"})])],
            [("/nodes/0/clicked/0/action/delay/trackingLink", "tracking_link_unknown")],
        ),
        (
            [wait_node(), action_node(delay={**WAIT, "on_expire": [{**NOTIFY, "delay": WAIT}]})],
            [
                ("/nodes/1/action/delay/on_expire/0/delay/mode", "delay_invalid"),
            ],
        ),
        ([starting("nothing")], [("/nodes/0/action/workflow", "action_workflow_unknown")]),
        ([starting("offer")], [("/nodes/0/action/workflow", "workflow_starts_itself")]),
    ],
)
def test_a_workflow_that_is_not_valid_is_refused(nodes, where, moderator, workflow, path):
    answer = moderator.put(path, json={"name": "offer", "nodes": nodes})

    assert problem(answer)[0] == 400
    assert faults(answer) == where
    assert moderator.get(path).json == workflow.json


def test_nodes_may_be_eight_lists_deep_and_two_hundred(moderator):
    for name, nodes in (("deep", nested(8)), ("many", [{"type": "stop"}] * 200)):
        answer = moderator.post("/v1/workflows", json={"name": name, "nodes": nodes})
        assert answer.status_code == 201


def test_a_workflow_that_would_start_itself_through_others_is_refused(moderator, workflow, path):
    for name, started in (("b", "offer"), ("c", "b")):
        body = {"name": name, "nodes": [action_node(), starting(started)]}
        assert moderator.post("/v1/workflows", json=body).status_code == 201

    late = {**NOTIFY, "type": "start_workflow", "workflow": "c", "delay": {"seconds": 60}}
    del late["chatroom_id"], late["message"]
    nodes = [wait_node(not_clicked=[{"type": "action", "action": late}])]
    answer = moderator.put(path, json={"name": "offer", "nodes": nodes})

    assert problem(answer)[0] == 400
    assert faults(answer) == [("/nodes/0/not_clicked/0/action/workflow", "workflow_starts_itself")]
    assert "offer → c → b → offer" in problem(answer)[2]


@pytest.mark.parametrize("form", ["{}", "https://links.example/t/{}"])
def test_an_action_of_a_workflow_may_wait_for_a_link_that_it_names(
    moderator, stranger, conn, tenant, form
):
    token = row_of(conn, "tracking_link", insert_link(conn, tenant.id))["token"]
    delay = {**WAIT, "trackingLink": form.format(token), "reEvaluateConditions": True}
    body = {"name": "named", "nodes": [action_node(delay={**delay, "on_expire": [NOTIFY]})]}

    made = moderator.post("/v1/workflows", json=body)

    assert (made.status_code, made.json["nodes"]) == (201, body["nodes"])
    assert faults(stranger.post("/v1/workflows", json=body)) == [
        ("/nodes/0/action/delay/trackingLink", "tracking_link_unknown")
    ]


def test_a_tenant_does_not_start_the_workflows_of_another(stranger, workflow):
    answer = stranger.post("/v1/workflows", json={"name": "x", "nodes": [starting("offer")]})

    assert faults(answer) == [("/nodes/0/action/workflow", "action_workflow_unknown")]


def test_the_same_workflow_under_a_key_is_made_once(moderator):
    key = {"Idempotency-Key": "k1"}
    first = moderator.post("/v1/workflows", json=WORKFLOW, headers=key)
    second = moderator.post("/v1/workflows", json=WORKFLOW, headers=key)

    assert second.status_code == 201
    assert second.json == first.json


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_see_workflows(role, caller, tenant):
    assert problem(caller(tenant, role).get("/v1/workflows"))[:2] == (403, "role_missing")
