from uuid import uuid4

import pytest

from tests.integration.api.callers import CHANNEL, Caller, problem


def bearer(client, text):
    return Caller(
        client=client,
        headers={"Authorization": f"Bearer {text}"},
        tables="/tenant/custom-tables/tables",
    )


def test_an_issued_token_is_good_until_it_is_revoked(moderator, client):
    issued = moderator.post("/v1/tokens", json={"name": "ci", "role": "moderator"})
    holder = bearer(client, issued.json["token"])
    before = holder.get("/v1/tokens")
    revoked = moderator.delete(f"/v1/tokens/{issued.json['id']}")
    after = holder.get("/v1/tokens")

    assert issued.status_code == 201
    assert before.status_code == 200
    assert revoked.status_code == 204
    assert problem(after)[:2] == (401, "unauthenticated")
    assert after.headers["WWW-Authenticate"] == "Bearer"


def test_a_token_is_shown_once_and_stored_as_its_hash(moderator, conn):
    text = moderator.post("/v1/tokens", json={"name": "ci", "role": "viewer"}).json["token"]

    listed = moderator.get("/v1/tokens").get_data(as_text=True)
    stored = conn.execute("SELECT string_agg(t::text, '') FROM api_token AS t").fetchone()[0]

    assert text.startswith("dbk_")
    assert len(text) == 47
    assert text not in listed
    assert text not in stored


def test_a_replayed_issue_does_not_show_the_token_again(moderator, conn):
    key = {"Idempotency-Key": "k1"}
    body = {"name": "ci", "role": "viewer"}
    first = moderator.post("/v1/tokens", json=body, headers=key).json
    again = moderator.post("/v1/tokens", json=body, headers=key)

    assert again.status_code == 201
    assert again.json == {**first, "token": None}
    kept = conn.execute("SELECT body FROM idempotent_answer").fetchone()[0]
    assert first["token"] not in kept


def test_tokens_are_listed_with_role_and_channel(moderator):
    moderator.post("/v1/tokens", json={"name": "bot", "role": "editor", "channel_id": str(CHANNEL)})

    found = moderator.get("/v1/tokens").json["items"][-1]

    assert (found["name"], found["role"], found["channel_id"]) == ("bot", "editor", str(CHANNEL))
    assert set(found) == {"id", "name", "role", "channel_id", "created_at", "revoked_at"}


def test_tokens_of_another_tenant_are_out_of_reach(moderator, stranger):
    theirs = stranger.get("/v1/tokens").json["items"][0]["id"]

    assert theirs not in moderator.get("/v1/tokens").get_data(as_text=True)
    assert problem(moderator.delete(f"/v1/tokens/{theirs}"))[:2] == (404, "token_not_found")


def test_the_admin_acts_in_the_tenant_that_it_names(admin, tenant, moderator):
    issued = admin.post(f"/v1/tokens?tenant={tenant.id}", json={"name": "a", "role": "viewer"})

    assert issued.status_code == 201
    assert issued.json["id"] in moderator.get("/v1/tokens").get_data(as_text=True)


def test_the_admin_must_name_a_tenant_that_exists(admin):
    assert problem(admin.get("/v1/tokens"))[:2] == (400, "field_missing")
    assert problem(admin.get(f"/v1/tokens?tenant={uuid4()}"))[:2] == (404, "tenant_not_found")


def test_a_token_may_not_name_a_tenant(moderator, tenant):
    answer = moderator.get(f"/v1/tokens?tenant={tenant.id}")

    assert problem(answer)[:2] == (403, "tenant_forbidden")


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_see_tokens(role, caller, tenant):
    assert problem(caller(tenant, role).get("/v1/tokens"))[:2] == (403, "role_missing")


def test_a_token_of_a_channel_does_not_reach_v1(channel_moderator):
    answer = channel_moderator.get("/v1/tokens")

    assert problem(answer)[:2] == (403, "channel_token_forbidden")


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic abc", "Bearer dbk_", "Bearer dbk_" + "A" * 43, "Bearer \xff"],
)
def test_what_is_no_token_is_401(header, client):
    answer = client.get("/v1/tokens", headers={"Authorization": header})

    assert problem(answer)[:2] == (401, "unauthenticated")


def test_a_wrong_admin_token_is_401_outside_the_root_scope(client, tenant):
    answer = client.get(f"/v1/tokens?tenant={tenant.id}", headers={"X-ADMIN-TOKEN": "wrong"})

    assert problem(answer)[:2] == (401, "unauthenticated")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": "a"}, "/role"),
        ({"name": "", "role": "viewer"}, "/name"),
        ({"name": "a", "role": "admin"}, "/role"),
        ({"name": "a", "role": "viewer", "channel_id": "x"}, "/channel_id"),
        ({"name": "a", "role": "viewer", "tenant_id": str(uuid4())}, "/tenant_id"),
    ],
)
def test_a_token_of_wrong_parts_is_refused(body, pointer, moderator):
    answer = moderator.post("/v1/tokens", json=body)

    assert problem(answer)[0] == 400
    assert [error["pointer"] for error in answer.json["errors"]] == [pointer]
