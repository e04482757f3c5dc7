"""Secrets over HTTP: set, listed, deleted, and never shown."""

from dataclasses import replace

import pytest

from services.api.app import create_app
from shared.domain.secrets import MAX_SECRET
from shared.queries.secrets import secret_values
from tests.builders_rules import NOTIFY
from tests.builders_sealed import NEW
from tests.integration.api.callers import faults, new_table, problem

CANARY = "canary-7f3a9c"
HOOK = {
    "type": "webhook",
    "url": "https://example.com/in",
    "headers": {"Authorization": {"secret": "crm_token", "prefix": "Bearer "}},
}
TRIGGER = {"on": "record_created", "actions": [HOOK]}
RULE = {"name": "paid", "event": "paid", "actions": [HOOK]}
LATER = {**NOTIFY, "delay": {"mode": "waitForTracking", "expiresSeconds": 60, "on_expire": [HOOK]}}
NODES = [
    {
        "type": "wait_for_tracking",
        "seconds": 60,
        "link": "offer",
        "target_url": "https://example.com",
        "clicked": [{"type": "action", "action": LATER}],
    }
]


@pytest.fixture
def put():
    """Sets a secret, as whoever is given."""
    return lambda who, name="crm_token", value=CANARY: who.put(
        f"/v1/secrets/{name}", json={"value": value}
    )


def test_a_secret_is_made_replaced_listed_and_deleted_and_never_shown(moderator, put):
    made, replaced = put(moderator), put(moderator, value="canary-other")
    put(moderator, name="a.b-c_1")
    listed = moderator.get("/v1/secrets")
    gone = moderator.delete("/v1/secrets/crm_token")

    assert [made.status_code, replaced.status_code, gone.status_code] == [201, 200, 204]
    assert set(made.json) == {"name", "created_at", "updated_at"}
    assert replaced.json["created_at"] == made.json["created_at"] < replaced.json["updated_at"]
    assert [item["name"] for item in listed.json["items"]] == ["a.b-c_1", "crm_token"]
    for answer in (made, replaced, listed):
        assert "canary" not in answer.get_data(as_text=True)
    again = moderator.delete("/v1/secrets/crm_token")
    assert problem(again)[:2] == (404, "secret_not_found")


def test_secrets_are_listed_in_pages(moderator, put):
    for name in "cab":
        put(moderator, name=name)

    first = moderator.get("/v1/secrets?limit=2").json
    second = moderator.get(f"/v1/secrets?limit=2&cursor={first['next_cursor']}").json

    assert [item["name"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None


def test_a_name_is_a_tenants_own(moderator, stranger, put, conn, tenant, other_tenant):
    put(moderator, value="ours")
    put(stranger, value="theirs")

    assert stranger.delete("/v1/secrets/crm_token").status_code == 204
    assert secret_values(conn, tenant.id, ["crm_token"])["crm_token"].content == b"ours"
    assert secret_values(conn, other_tenant.id, ["crm_token"]) == {}


def test_with_encryption_keys_values_are_encrypted(parts, moderator, put, conn, tenant):
    sealing = replace(moderator, client=create_app(replace(parts, sealer=NEW)).test_client())

    for value in ("old", "x" * MAX_SECRET):
        put(sealing, value=value)

    sealed = secret_values(conn, tenant.id, ["crm_token"])["crm_token"]
    assert sealed.sealed_with == NEW.current
    assert NEW.open(sealed) == b"x" * MAX_SECRET
    assert b"xxxx" not in sealed.content


@pytest.mark.parametrize("value", ["x" * MAX_SECRET, "a b", "!~", "a"])
def test_what_a_header_can_carry_is_taken(moderator, put, value):
    assert put(moderator, value=value).status_code == 201


@pytest.mark.parametrize(
    "value", ["", " ", "a ", " a", "a\n", "a\r\nX: y", "\t", "é", "a\x7f", "x" * (MAX_SECRET + 1)]
)
def test_what_no_header_could_carry_is_refused_and_not_repeated(moderator, put, value):
    answer = put(moderator, value=value)

    assert answer.status_code == 400
    [(pointer, _)] = faults(answer)
    assert pointer == "/value"
    assert "x" * 50 not in answer.get_data(as_text=True)
    assert moderator.get("/v1/secrets").json["items"] == []


@pytest.mark.parametrize("body", [{}, {"value": None}, {"value": 7}, {"value": ["x"]}, {"v": "x"}])
def test_a_body_without_a_value_is_refused(moderator, body):
    assert moderator.put("/v1/secrets/s", json=body).status_code == 400


@pytest.mark.parametrize("name", ["..", ".a", "-a", "a b", "a%2Fb", "é", "a" * 101, "$row", "a%00"])
def test_what_is_no_name_is_no_address(moderator, put, name):
    answer = put(moderator, name=name)

    assert answer.status_code == 404
    assert moderator.get("/v1/secrets").json["items"] == []


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_set_and_list_secrets(role, caller, tenant, put):
    who = caller(tenant, role)

    assert problem(put(who))[:2] == (403, "role_missing")
    assert problem(who.get("/v1/secrets"))[:2] == (403, "role_missing")
    assert problem(who.delete("/v1/secrets/crm_token"))[:2] == (403, "role_missing")


def _save(moderator, table):
    return {
        "triggers": moderator.put(f"{table}/triggers", json={"triggers": [TRIGGER]}),
        "rule": moderator.post("/v1/trigger-rules", json=RULE),
        "workflow": moderator.post("/v1/workflows", json={"name": "w", "nodes": NODES}),
    }


def test_a_definition_that_names_a_secret_that_is_not_there_is_refused(
    moderator, stranger, put, table
):
    put(stranger)

    answers = _save(moderator, table)

    for answer in answers.values():
        assert answer.status_code == 400
        [(pointer, code)] = faults(answer)
        assert pointer.endswith("/headers/Authorization/secret")
        assert code == "action_secret_unknown"
    told = "webhook headers.Authorization secret 'crm_token' does not exist"
    assert problem(answers["rule"])[2] == told


def test_a_definition_says_the_name_and_holds_the_secret(moderator, put, table):
    put(moderator)
    put(moderator, name="crm_token2")

    answers = _save(moderator, table)

    assert {answer.status_code for answer in answers.values()} <= {200, 201}
    shown = answers["triggers"].json["triggers"][0]["actions"][0]["headers"]
    assert shown == HOOK["headers"]
    refused = moderator.delete("/v1/secrets/crm_token")
    assert problem(refused)[:2] == (409, "secret_in_use")
    name = moderator.get(table).json["name"]
    assert problem(refused)[2] == (
        f"secret 'crm_token' is named by triggers of table '{name}', trigger rule 'paid',"
        " workflow 'w'"
    )
    assert moderator.delete("/v1/secrets/crm_token2").status_code == 204


def test_a_secret_that_nothing_live_names_any_more_is_let_go(moderator, put, table):
    put(moderator)
    answers = _save(moderator, table)

    moderator.delete(table)
    moderator.delete(f"/v1/trigger-rules/{answers['rule'].json['id']}")
    moderator.delete(f"/v1/workflows/{answers['workflow'].json['id']}")

    assert moderator.delete("/v1/secrets/crm_token").status_code == 204


def test_the_document_of_a_bundle_has_the_name_and_needs_the_secret(moderator, stranger, put):
    put(moderator)
    path, _ = new_table(moderator)
    _save(moderator, path)

    document = moderator.get("/tenant/custom-tables/bundle").data
    refused = _apply(stranger, document)
    put(stranger, value="theirs")
    applied = _apply(stranger, document)

    assert b"canary" not in document
    assert document.count(b'"secret": "crm_token"') == 3
    assert refused.status_code == 400
    assert {code for _, code in faults(refused)} == {"action_secret_unknown"}
    assert applied.status_code == 200
    assert stranger.get("/tenant/custom-tables/bundle").data == document


def _apply(who, document):
    kind = "application/x-ndjson"
    base = "/tenant/custom-tables/bundle"
    planned = who.post(f"{base}/plan", data=document, content_type=kind).json
    address = f"{base}/apply?fingerprint={planned['fingerprint']}"
    return who.post(address, data=document, content_type=kind)
