import pytest

from tests.integration.api.callers import faults, problem

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
COMMAND = {"name": "送信", "url": "https://example.com/run", "input_schema": SCHEMA}


@pytest.fixture
def command(moderator):
    return moderator.post("/v1/commands", json=COMMAND)


def test_a_registered_command_is_found_by_its_id(moderator, command):
    found = moderator.get(f"/v1/commands/{command.json['id']}")

    assert command.status_code == 201
    assert found.json == command.json
    assert {key: found.json[key] for key in COMMAND} == COMMAND
    assert found.headers["ETag"] == '"1"'


def test_a_name_is_used_once_in_a_tenant(moderator, stranger, command):
    assert problem(moderator.post("/v1/commands", json=COMMAND))[:2] == (409, "command_exists")
    assert stranger.post("/v1/commands", json=COMMAND).status_code == 201


def test_commands_are_listed_in_pages(moderator):
    for number in range(3):
        moderator.post("/v1/commands", json={**COMMAND, "name": f"c{number}"})

    first = moderator.get("/v1/commands?limit=2").json
    second = moderator.get(f"/v1/commands?limit=2&cursor={first['next_cursor']}").json

    names = [item["name"] for item in first["items"] + second["items"]]
    assert names == ["c0", "c1", "c2"]


def test_an_altered_command_has_a_new_revision(moderator, command):
    path = f"/v1/commands/{command.json['id']}"
    altered = moderator.patch(path, json={"url": "https://example.com/2"})

    assert altered.json["url"] == "https://example.com/2"
    assert altered.json["input_schema"] == SCHEMA
    assert altered.headers["ETag"] == '"2"'


def test_a_change_of_a_stale_revision_is_refused(moderator, command):
    path = f"/v1/commands/{command.json['id']}"
    moderator.patch(path, json={"url": "https://example.com/2"})

    body = {"url": "https://example.com/3"}
    stale = moderator.patch(path, json=body, headers={"If-Match": '"1"'})
    present = moderator.patch(path, json=body, headers={"If-Match": '"2"'})

    assert problem(stale)[:2] == (412, "stale_version")
    assert present.status_code == 200


def test_a_deleted_command_is_gone(moderator, command):
    path = f"/v1/commands/{command.json['id']}"

    assert moderator.delete(path).status_code == 204
    for answer in (moderator.get(path), moderator.delete(path), moderator.patch(path, json={})):
        assert problem(answer)[:2] == (404, "command_not_found")


def test_a_command_of_another_tenant_is_absent(stranger, command):
    answer = stranger.get(f"/v1/commands/{command.json['id']}")

    assert problem(answer)[:2] == (404, "command_not_found")


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"url": "ftp://example.com"}, [("/url", "command_url_invalid")]),
        ({"url": "https://user@example.com"}, [("/url", "command_url_invalid")]),
        ({"input_schema": {"type": "array"}}, [("/input_schema", "input_schema_invalid")]),
        ({"name": ""}, [("/name", "field_invalid")]),
        ({"input_schema": []}, [("/input_schema", "field_invalid")]),
    ],
)
def test_a_command_that_could_not_be_called_is_refused(part, where, moderator):
    answer = moderator.post("/v1/commands", json={**COMMAND, **part})

    assert problem(answer)[0] == 400
    assert faults(answer) == where


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_see_commands(role, caller, tenant):
    assert problem(caller(tenant, role).get("/v1/commands"))[:2] == (403, "role_missing")
