from datetime import timedelta

import pytest

from shared.usecases import list_executions
from tests.builders_db import NOW, insert_row, row_of
from tests.builders_delayed import insert_action, insert_line_user, insert_link
from tests.builders_rules import action_node, wait_node
from tests.integration.api.callers import faults, problem

NODES = [action_node(), wait_node()]


@pytest.fixture
def workflow(moderator):
    return moderator.post("/v1/workflows", json={"name": "offer", "nodes": NODES}).json["id"]


@pytest.fixture
def path(workflow):
    return f"/v1/workflows/{workflow}/executions"


@pytest.fixture
def contact(conn, tenant):
    return insert_line_user(conn, tenant.id, external_id="crm-1", display_name="Lin")


@pytest.fixture
def execution(conn, tenant, workflow):
    """Insert an execution that began so many minutes after now, with steps of these statuses."""

    def insert(minute, *statuses, line_user_id=None):
        execution_id = insert_row(
            conn,
            "workflow_execution",
            tenant_id=tenant.id,
            workflow_id=workflow,
            workflow_version=1,
            line_user_id=line_user_id,
            origin_key=f"started {minute}",
            started_at=NOW + timedelta(minutes=minute),
        )
        for place, status in enumerate(statuses):
            step = {"execution_id": execution_id, "workflow_id": workflow, "workflow_version": 1}
            insert_action(conn, tenant.id, status=status, workflow_node_path=f"{place}", **step)
        return str(execution_id)

    return insert


def ids(answer):
    return [item["id"] for item in answer.json["items"]]


def test_a_started_execution_stands_at_its_first_step(moderator, path, contact, workflow):
    body = {"line_user_id": contact, "context": {"order": 1027}}
    started = moderator.post(path, json=body)

    assert started.status_code == 201
    assert (started.json["status"], started.json["node_path"]) == ("waiting", "0")
    assert started.json["next_due_at"] == started.json["started_at"]
    assert (started.json["workflow_id"], started.json["workflow_version"]) == (workflow, 1)
    assert started.json["context"] == {"order": 1027}
    assert started.json["line_user"] == {
        "id": contact,
        "external_id": "crm-1",
        "display_name": "Lin",
    }
    assert moderator.get(f"{path}/{started.json['id']}").json == started.json


def test_an_execution_needs_no_contact(moderator, path):
    started = moderator.post(path, json={})

    assert started.status_code == 201
    assert (started.json["line_user"], started.json["context"]) == (None, {})


def test_a_click_that_comes_while_an_execution_is_started_is_not_lost(moderator, conn, tenant):
    token = row_of(conn, "tracking_link", insert_link(conn, tenant.id))["token"]
    wait = {"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": "$event.link"}
    body = {"name": "waits", "nodes": [action_node(delay=wait)]}
    workflow_id = moderator.post("/v1/workflows", json=body).json["id"]
    conn.execute(
        "CREATE FUNCTION click() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO tracking_click (link_id, first_clicked_at)"
        " VALUES (NEW.tracking_link_id, clock_timestamp()); RETURN NEW; END $$"
    )
    conn.execute(
        "CREATE TRIGGER click AFTER INSERT ON scheduled_action FOR EACH ROW"
        " EXECUTE FUNCTION click()"
    )

    path = f"/v1/workflows/{workflow_id}/executions"
    started = moderator.post(path, json={"context": {"link": token}})

    assert started.status_code == 201
    assert conn.execute("SELECT branch FROM scheduled_action").fetchone() == ("clicked",)


def test_an_execution_begins_with_the_newest_version_and_keeps_it(moderator, path, workflow):
    before = moderator.post(path, json={}).json
    nodes = [{"type": "delay", "seconds": 60}]
    moderator.put(f"/v1/workflows/{workflow}", json={"name": "offer", "nodes": nodes})
    after = moderator.post(path, json={}).json

    assert (before["workflow_version"], after["workflow_version"]) == (1, 2)
    assert moderator.get(f"{path}/{before['id']}").json["workflow_version"] == 1


@pytest.mark.parametrize(
    ("steps", "status", "node_path"),
    [
        ([], "done", None),
        (["done", "pending"], "waiting", "1"),
        (["processing"], "running", "0"),
        (["done", "done"], "done", "1"),
        (["done", "failed"], "failed", "1"),
        (["cancelled"], "cancelled", "0"),
    ],
)
def test_the_newest_step_tells_where_an_execution_stands(
    moderator, path, execution, steps, status, node_path
):
    execution_id = execution(0, *steps)

    [stands] = moderator.get(path).json["items"]

    assert stands["id"] == execution_id
    assert (stands["status"], stands["node_path"]) == (status, node_path)
    assert (stands["next_due_at"] is None) is (status != "waiting")
    assert (stands["error"] is None) is (status not in ("failed", "cancelled"))


def test_executions_are_listed_in_pages_the_newest_first(moderator, path, execution):
    made = [execution(minute) for minute in range(3)]

    first = moderator.get(f"{path}?limit=2")
    second = moderator.get(f"{path}?limit=2&cursor={first.json['next_cursor']}")

    assert ids(first) + ids(second) == made[::-1]
    assert second.json["next_cursor"] is None


def test_executions_of_a_status_are_listed_in_pages(moderator, path, execution):
    made = [execution(minute, "failed" if minute % 2 else "done") for minute in range(6)]

    first = moderator.get(f"{path}?limit=2&status=failed")
    second = moderator.get(f"{path}?limit=2&status=failed&cursor={first.json['next_cursor']}")

    assert ids(first) == [made[5], made[3]]
    assert ids(second) == [made[1]]
    assert second.json["next_cursor"] is None


def test_a_page_of_a_rare_status_is_short_and_goes_on(moderator, path, execution, monkeypatch):
    monkeypatch.setattr(list_executions, "_LOOKED_AT", 2)
    rare = execution(0, "failed")
    for minute in range(1, 5):
        execution(minute, "done")

    found, cursor, calls = [], "", 0
    while cursor is not None:
        answer = moderator.get(f"{path}?limit=1&status=failed{cursor and f'&cursor={cursor}'}")
        found += ids(answer)
        cursor, calls = answer.json["next_cursor"], calls + 1

    assert found == [rare]
    assert calls == 3


def test_executions_of_a_contact(moderator, path, execution, contact):
    theirs = execution(0, line_user_id=contact)
    execution(1)

    assert ids(moderator.get(f"{path}?line_user_id={contact}")) == [theirs]
    assert ids(moderator.get(f"{path}?line_user_id={contact + 1}")) == []


def test_a_deleted_contact_is_told_by_its_last_name(moderator, path, execution, contact):
    execution(0, "cancelled", line_user_id=contact)
    moderator.delete(f"/v1/line-users/{contact}")

    [stands] = moderator.get(path).json["items"]

    assert stands["line_user"]["external_id"] == "crm-1"


def test_executions_are_seen_only_in_their_workflow(moderator, path, execution):
    execution_id = execution(0)
    body = {"name": "other", "nodes": NODES}
    other = f"/v1/workflows/{moderator.post('/v1/workflows', json=body).json['id']}/executions"

    assert ids(moderator.get(other)) == []
    answer = moderator.get(f"{other}/{execution_id}")
    assert problem(answer)[:2] == (404, "execution_not_found")


def test_executions_of_another_tenant_are_absent(moderator, stranger, path, execution):
    execution_id = execution(0)

    for answer in (
        stranger.get(path),
        stranger.get(f"{path}/{execution_id}"),
        stranger.post(path, json={}),
    ):
        assert problem(answer)[:2] == (404, "workflow_not_found")


def test_a_deleted_workflow_is_not_started(moderator, path, workflow):
    moderator.delete(f"/v1/workflows/{workflow}")

    assert problem(moderator.post(path, json={}))[:2] == (404, "workflow_not_found")


def test_the_same_start_under_a_key_starts_once(moderator, path):
    key = {"Idempotency-Key": "k1"}
    first = moderator.post(path, json={}, headers=key)
    second = moderator.post(path, json={}, headers=key)

    assert second.json == first.json
    assert len(ids(moderator.get(path))) == 1


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"line_user_id": 0}, [("/line_user_id", "field_invalid")]),
        ({"line_user_id": 2**63 - 1}, [("/line_user_id", "line_user_unknown")]),
        ({"context": []}, [("/context", "field_invalid")]),
        ({"context": {"a": "x" * 70_000}}, [("/context", "event_data_too_large")]),
        ({"depth": 1}, [("/depth", "field_unknown")]),
    ],
)
def test_a_start_that_is_not_valid_is_refused(moderator, path, body, where):
    answer = moderator.post(path, json=body)

    assert problem(answer)[0] == 400
    assert faults(answer) == where
    assert ids(moderator.get(path)) == []


def test_a_contact_of_another_tenant_is_refused(moderator, stranger, path):
    body = {"external_id": "theirs"}
    theirs = stranger.post("/v1/line-users", json=body).json["id"]

    answer = moderator.post(path, json={"line_user_id": theirs})

    assert problem(answer)[:2] == (400, "line_user_unknown")


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_see_executions(role, caller, tenant, path):
    assert problem(caller(tenant, role).get(path))[:2] == (403, "role_missing")
