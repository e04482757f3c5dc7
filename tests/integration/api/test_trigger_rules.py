import json

import pytest

from tests.builders_db import row_of
from tests.builders_delayed import insert_link
from tests.builders_rules import NOTIFY
from tests.integration.api.callers import faults, new_table, problem

CONDITION = {"column": "event.sum", "op": "gte", "value": 100}
RULE = {
    "name": "thank",
    "event": "order.paid",
    "conditions": [CONDITION, {"column": "line_user.plan", "op": "neq", "value": "free"}],
    "actions": [{**NOTIFY, "message": "thank you, $line_user.display_name"}],
    "enabled": True,
}
WAIT = {"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": "$event.link"}


@pytest.fixture
def rule(moderator):
    return moderator.post("/v1/trigger-rules", json=RULE)


@pytest.fixture
def path(rule):
    return f"/v1/trigger-rules/{rule.json['id']}"


def an_action(**parts):
    return {"actions": [{**NOTIFY, **parts}]}


def test_a_rule_is_found_by_its_id(moderator, rule, path):
    found = moderator.get(path)

    assert rule.status_code == 201
    assert found.json == rule.json
    assert {key: found.json[key] for key in RULE} == RULE
    assert found.headers["ETag"] == '"1"'


def test_a_rule_needs_no_conditions_and_is_enabled(moderator):
    body = {"name": "x", "event": "y", "actions": [NOTIFY]}

    made = moderator.post("/v1/trigger-rules", json=body).json

    assert (made["conditions"], made["enabled"]) == ([], True)


def test_a_name_is_used_once_in_a_tenant(moderator, stranger, rule):
    again = moderator.post("/v1/trigger-rules", json=RULE)

    assert problem(again)[:2] == (409, "trigger_rule_exists")
    assert stranger.post("/v1/trigger-rules", json=RULE).status_code == 201


def test_rules_are_listed_in_pages(moderator):
    for number in range(3):
        moderator.post("/v1/trigger-rules", json={**RULE, "name": f"r{number}"})

    first = moderator.get("/v1/trigger-rules?limit=2").json
    second = moderator.get(f"/v1/trigger-rules?limit=2&cursor={first['next_cursor']}").json

    names = [item["name"] for item in first["items"] + second["items"]]
    assert names == ["r0", "r1", "r2"]


def test_a_replaced_rule_has_a_new_revision(moderator, rule, path):
    body = {"name": "thanks", "event": "paid", "actions": [NOTIFY], "enabled": False}
    replaced = moderator.put(path, json=body)

    assert {key: replaced.json[key] for key in body} == body
    assert replaced.json["conditions"] == []
    assert replaced.headers["ETag"] == '"2"'
    assert moderator.get(path).json == replaced.json


def test_saving_what_is_stored_changes_nothing(moderator, rule, path):
    assert moderator.put(path, json=RULE).json == rule.json


def test_a_number_for_true_is_a_change(moderator, rule, path):
    conditions = [{"column": "event.a", "op": "eq", "value": value} for value in (True, 1)]
    for revision, condition in enumerate(conditions, start=2):
        answer = moderator.put(path, json={**RULE, "conditions": [condition]})
        assert answer.json["revision"] == revision


def test_a_change_of_a_stale_revision_is_refused(moderator, rule, path):
    body = {**RULE, "enabled": False}
    moderator.put(path, json=body)

    stale = moderator.put(path, json=RULE, headers={"If-Match": '"1"'})
    present = moderator.put(path, json=RULE, headers={"If-Match": '"2"'})

    assert problem(stale)[:2] == (412, "stale_version")
    assert present.status_code == 200


def test_a_rule_cannot_take_the_name_of_another(moderator, rule, path):
    moderator.post("/v1/trigger-rules", json={**RULE, "name": "other"})

    answer = moderator.put(path, json={**RULE, "name": "other"})

    assert problem(answer)[:2] == (409, "trigger_rule_exists")


def test_a_deleted_rule_is_gone(moderator, rule, path):
    assert moderator.delete(path).status_code == 204

    for answer in (moderator.get(path), moderator.put(path, json=RULE), moderator.delete(path)):
        assert problem(answer)[:2] == (404, "trigger_rule_not_found")


def test_a_rule_of_another_tenant_is_absent(stranger, rule, path):
    for answer in (stranger.get(path), stranger.put(path, json=RULE), stranger.delete(path)):
        assert problem(answer)[:2] == (404, "trigger_rule_not_found")


def test_an_event_has_so_many_rules_and_no_more(moderator, rule, path):
    for number in range(49):
        body = {**RULE, "name": f"r{number}"}
        assert moderator.post("/v1/trigger-rules", json=body).status_code == 201

    more = moderator.post("/v1/trigger-rules", json={**RULE, "name": "more"})
    other = moderator.post("/v1/trigger-rules", json={**RULE, "name": "other", "event": "e"})
    moved = moderator.put(f"/v1/trigger-rules/{other.json['id']}", json={**RULE, "name": "other"})

    assert problem(more)[:2] == problem(moved)[:2] == (409, "trigger_rules_too_many")
    assert moderator.put(path, json={**RULE, "enabled": False}).status_code == 200


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"name": ""}, [("/name", "field_invalid")]),
        ({"event": "x" * 201}, [("/event", "field_invalid")]),
        ({"enabled": 1}, [("/enabled", "field_invalid")]),
        ({"conditions": {}}, [("/conditions", "when_predicate_invalid")]),
        (
            {"actions": [{**RULE["actions"][0], "message": "x" * 9000}] * 15},
            [("/actions", "trigger_rule_invalid")],
        ),
        (
            {"conditions": [{**CONDITION, "column": "sum"}]},
            [("/conditions/0/column", "when_column_missing")],
        ),
        (
            {"conditions": [{"column": "event.a", "op": "changed"}]},
            [("/conditions/0/op", "when_predicate_invalid")],
        ),
        ({"actions": []}, [("/actions", "trigger_rule_invalid")]),
        ({"actions": [NOTIFY] * 21}, [("/actions", "trigger_rule_invalid")]),
        ({"actions": [5]}, [("/actions/0", "trigger_rule_invalid")]),
        (an_action(type="mail"), [("/actions/0/type", "action_type_unknown")]),
        (an_action(colour="red"), [("/actions/0/colour", "action_invalid")]),
        (an_action(message="$row.a"), [("/actions/0/message", "row_token_not_allowed")]),
        (an_action(message="$link.a"), [("/actions/0/message", "template_link_unknown")]),
        (an_action(delay={}), [("/actions/0/delay/seconds", "delay_invalid")]),
        (
            an_action(delay={**WAIT, "trackingLink": "nothing"}),
            [("/actions/0/delay/trackingLink", "tracking_link_unknown")],
        ),
        ({"revision": 1}, [("/revision", "field_unknown")]),
    ],
)
def test_a_rule_that_is_not_valid_is_refused(part, where, moderator, rule, path):
    made = moderator.post("/v1/trigger-rules", json={**RULE, "name": "new", **part})
    replaced = moderator.put(path, json={**RULE, **part})

    for answer in (made, replaced):
        assert problem(answer)[0] == 400
        assert faults(answer) == where
    assert moderator.get(path).json == rule.json


def test_all_faults_are_told_in_the_order_of_the_document(moderator):
    body = {**RULE, "conditions": [{}], **an_action(type="mail", on_error="wait")}

    text = json.dumps(body)  # as it stands: the client would sort the keys
    answer = moderator.post("/v1/trigger-rules", data=text, content_type="application/json")

    assert [pointer for pointer, _ in faults(answer)] == [
        "/conditions/0/column",
        "/conditions/0/op",
        "/actions/0/type",
        "/actions/0/on_error",
    ]


def test_tables_and_commands_of_another_tenant_are_absent(moderator, stranger):
    _, table = new_table(stranger)
    create = {"type": "create_record", "table_id": table["id"], "data": {}}
    invoke = {"type": "invoke_command", "command": "ship"}

    answer = moderator.post("/v1/trigger-rules", json={**RULE, "actions": [create, invoke]})

    assert faults(answer) == [
        ("/actions/0/table_id", "action_table_unknown"),
        ("/actions/1/command", "action_command_unknown"),
    ]


@pytest.mark.parametrize("form", ["{}", "https://links.example/t/{}"])
def test_a_rule_may_wait_for_a_link_that_it_names(moderator, stranger, conn, tenant, form):
    token = row_of(conn, "tracking_link", insert_link(conn, tenant.id))["token"]
    body = {**RULE, **an_action(delay={**WAIT, "trackingLink": form.format(token)})}

    assert moderator.post("/v1/trigger-rules", json=body).status_code == 201
    assert faults(stranger.post("/v1/trigger-rules", json=body)) == [
        ("/actions/0/delay/trackingLink", "tracking_link_unknown")
    ]


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_see_rules(role, caller, tenant):
    assert problem(caller(tenant, role).get("/v1/trigger-rules"))[:2] == (403, "role_missing")
