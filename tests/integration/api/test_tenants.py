from tests.integration.api.callers import problem


def test_the_admin_makes_a_tenant_whose_webhooks_can_be_signed(admin, conn):
    answer = admin.post("/root/tenants", json={"name": "new"})

    assert answer.status_code == 201
    assert answer.json["name"] == "new"
    keys = admin.get(f"/v1/signing-keys?tenant={answer.json['id']}")
    assert len(keys.json["items"]) == 1


def test_a_name_is_used_once(admin, tenant):
    answer = admin.post("/root/tenants", json={"name": tenant.name})

    assert problem(answer)[:2] == (409, "tenant_exists")


def test_tenants_are_listed_in_pages_the_oldest_first(admin):
    made = [admin.post("/root/tenants", json={"name": f"t{n}"}).json for n in range(5)]

    first = admin.get("/root/tenants?limit=3").json
    second = admin.get(f"/root/tenants?limit=3&cursor={first['next_cursor']}").json

    assert first["items"] + second["items"] == made
    assert second["next_cursor"] is None


def test_nobody_but_the_admin_sees_tenants(moderator, nobody):
    for who in (moderator, nobody):
        answer = who.get("/root/tenants")
        assert problem(answer) == (
            403,
            "admin_token_invalid",
            "BaseRoot access denied: Invalid X-ADMIN-TOKEN",
        )


def test_a_tenant_is_made_once_under_an_idempotency_key(admin):
    key = {"Idempotency-Key": "k1"}
    first = admin.post("/root/tenants", json={"name": "new"}, headers=key)
    again = admin.post("/root/tenants", json={"name": "new"}, headers=key)
    other = admin.post("/root/tenants", json={"name": "other"}, headers=key)

    assert (again.status_code, again.data) == (201, first.data)
    assert problem(other)[:2] == (409, "idempotency_key_reused")
    assert len(admin.get("/root/tenants").json["items"]) == 1
