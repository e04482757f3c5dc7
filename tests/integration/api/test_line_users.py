import pytest

from tests.integration.api.callers import faults, problem

CONTACT = {
    "external_id": "crm-1027",
    "display_name": "林小姐",
    "attributes": {"plan": "pro", "visits": 3, "tags": ["vip"]},
}


@pytest.fixture
def contact(service):
    return service.post("/v1/line-users", json=CONTACT)


def test_a_registered_contact_is_found_by_its_id(service, contact):
    found = service.get(f"/v1/line-users/{contact.json['id']}")

    assert contact.status_code == 201
    assert found.json == contact.json
    assert {key: found.json[key] for key in CONTACT} == CONTACT


def test_a_contact_needs_its_external_id_alone(service):
    answer = service.post("/v1/line-users", json={"external_id": "x"})

    assert answer.status_code == 201
    assert (answer.json["display_name"], answer.json["attributes"]) == (None, {})


def test_an_attribute_of_null_is_none(service):
    body = {"external_id": "x", "attributes": {"plan": None, "visits": 0}}

    assert service.post("/v1/line-users", json=body).json["attributes"] == {"visits": 0}


def test_an_external_id_is_used_once_in_a_tenant(service, stranger, contact):
    again = service.post("/v1/line-users", json=CONTACT)

    assert problem(again)[:2] == (409, "line_user_exists")
    assert stranger.post("/v1/line-users", json=CONTACT).status_code == 201


def test_contacts_are_listed_in_pages(service):
    for number in range(3):
        service.post("/v1/line-users", json={"external_id": f"c{number}"})

    first = service.get("/v1/line-users?limit=2").json
    second = service.get(f"/v1/line-users?limit=2&cursor={first['next_cursor']}").json

    ids = [item["external_id"] for item in first["items"] + second["items"]]
    assert ids == ["c0", "c1", "c2"]
    assert second["next_cursor"] is None


def test_a_contact_is_found_by_its_external_id(service, stranger, contact):
    service.post("/v1/line-users", json={"external_id": "crm-1"})
    stranger.post("/v1/line-users", json=CONTACT)

    found = service.get("/v1/line-users?external_id=crm-1027").json
    assert found == {"items": [contact.json], "next_cursor": None}
    assert service.get("/v1/line-users?external_id=crm-10").json["items"] == []


def test_a_change_keeps_what_it_does_not_name(service, contact):
    path = f"/v1/line-users/{contact.json['id']}"
    answer = service.patch(path, json={"attributes": {"plan": "free", "visits": None, "new": True}})

    assert answer.json["external_id"] == "crm-1027"
    assert answer.json["display_name"] == "林小姐"
    assert answer.json["attributes"] == {"plan": "free", "tags": ["vip"], "new": True}
    assert service.get(path).json == answer.json


def test_a_display_name_can_be_taken_away(service, contact):
    path = f"/v1/line-users/{contact.json['id']}"

    assert service.patch(path, json={"display_name": None}).json["display_name"] is None


def test_a_change_of_nothing_leaves_the_contact_as_it_is(service, contact):
    path = f"/v1/line-users/{contact.json['id']}"

    assert service.patch(path, json={}).json == contact.json
    assert service.patch(path, json={"external_id": "crm-1027"}).json == contact.json


def test_a_contact_cannot_take_the_external_id_of_another(service, contact):
    other = service.post("/v1/line-users", json={"external_id": "other"})
    path = f"/v1/line-users/{other.json['id']}"

    answer = service.patch(path, json={"external_id": "crm-1027"})

    assert problem(answer)[:2] == (409, "line_user_exists")


def test_a_deleted_contact_is_gone_and_its_external_id_free(service, contact):
    path = f"/v1/line-users/{contact.json['id']}"
    assert service.delete(path).status_code == 204

    for answer in (
        service.get(path),
        service.patch(path, json={"display_name": "x"}),
        service.delete(path),
    ):
        assert problem(answer)[:2] == (404, "line_user_not_found")
    assert service.get("/v1/line-users").json["items"] == []
    assert service.post("/v1/line-users", json=CONTACT).status_code == 201


def test_a_contact_of_another_tenant_is_absent(stranger, contact):
    path = f"/v1/line-users/{contact.json['id']}"

    for answer in (
        stranger.get(path),
        stranger.patch(path, json={"display_name": "x"}),
        stranger.delete(path),
    ):
        assert problem(answer)[:2] == (404, "line_user_not_found")


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"external_id": ""}, [("/external_id", "field_invalid")]),
        ({"external_id": "x" * 201}, [("/external_id", "field_invalid")]),
        ({"external_id": None}, [("/external_id", "field_invalid")]),
        ({"display_name": "x" * 201}, [("/display_name", "field_invalid")]),
        ({"attributes": []}, [("/attributes", "field_invalid")]),
        ({"attributes": {"id": 1}}, [("/attributes/id", "attributes_invalid")]),
        ({"attributes": {"": 1}}, [("/attributes/", "attributes_invalid")]),
        ({"attributes": {"a": "x" * 70_000}}, [("/attributes", "attributes_invalid")]),
        ({"attributes": dict.fromkeys(map(str, range(201)), 1)}, None),
        ({"id": 1}, [("/id", "field_unknown")]),
    ],
)
def test_a_contact_that_is_not_valid_is_refused(part, where, service, contact):
    created = service.post("/v1/line-users", json={**CONTACT, "external_id": "new", **part})
    changed = service.patch(f"/v1/line-users/{contact.json['id']}", json=part)

    for answer in (created, changed):
        assert problem(answer)[0] == 400
        assert faults(answer) == (where or [("/attributes", "attributes_invalid")])


def test_the_attributes_of_a_contact_do_not_grow_beyond_the_limit_by_changes(service, contact):
    path = f"/v1/line-users/{contact.json['id']}"
    assert service.patch(path, json={"attributes": {"a": "x" * 40_000}}).status_code == 200

    answer = service.patch(path, json={"attributes": {"b": "x" * 40_000}})

    assert problem(answer)[:2] == (400, "attributes_invalid")


def test_the_same_registration_under_a_key_is_answered_again(service):
    key = {"Idempotency-Key": "k1"}
    first = service.post("/v1/line-users", json=CONTACT, headers=key)
    second = service.post("/v1/line-users", json=CONTACT, headers=key)

    assert second.status_code == 201
    assert second.json == first.json


@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_only_moderators_and_services_see_contacts(role, caller, tenant):
    assert problem(caller(tenant, role).get("/v1/line-users"))[:2] == (403, "role_missing")
