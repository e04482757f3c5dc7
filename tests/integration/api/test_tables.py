from uuid import uuid4

import pytest

from tests.integration.api.callers import CHANNEL, COLUMNS, faults, new_table, problem


def test_a_created_table_is_found_in_its_scope(author, tenant):
    path, made = new_table(author, tenant=tenant)

    found = author.get(path)

    assert found.json == made
    assert found.headers["ETag"] == '"1"'
    assert [{k: v for k, v in c.items() if k != "id"} for c in made["columns"]] == COLUMNS
    assert made["tenant_id"] == str(tenant.id)
    assert made["trashed_at"] is None


def test_a_table_of_the_channel_scope_has_the_channel_of_the_token(channel_moderator):
    assert new_table(channel_moderator)[1]["channel_id"] == str(CHANNEL)


def test_a_table_asks_for_approval_from_its_creation_on_or_by_a_change(author, tenant):
    asking, made = new_table(author, tenant=tenant, approval="required")
    path, free = new_table(author, tenant=tenant)

    changed = author.patch(path, json={"approval": "required"}, headers={"If-Match": '"1"'})
    again = author.patch(path, json={"approval": "required"})

    assert made["approval"] == author.get(asking).json["approval"] == "required"
    assert free["approval"] == "none"
    assert (changed.json["approval"], changed.headers["ETag"]) == ("required", '"2"')
    assert again.headers["ETag"] == '"2"'
    assert author.patch(path, json={"name": "x"}).json["approval"] == "required"
    assert problem(author.patch(path, json={"approval": "none"}, headers={"If-Match": '"1"'}))[
        :2
    ] == (412, "stale_version")


@pytest.mark.parametrize("approval", ["maybe", True, None, 1, ["required"]])
def test_an_approval_that_is_none_is_refused(moderator, approval):
    path, _ = new_table(moderator)
    body = {"name": "x", "columns": COLUMNS, "approval": approval}

    for answer in (
        moderator.post(moderator.tables, json=body),
        moderator.patch(path, json={"approval": approval}),
    ):
        assert problem(answer)[0] == 400
        assert faults(answer) == [("/approval", "field_invalid")]


def test_a_channel_may_be_chosen_at_creation_but_not_anothers(moderator, channel_moderator):
    other = str(uuid4())

    assert new_table(moderator, channel_id=other)[1]["channel_id"] == other
    body = {"name": "x", "columns": COLUMNS, "channel_id": other}
    answer = channel_moderator.post(channel_moderator.tables, json=body)
    assert problem(answer)[:2] == (403, "channel_forbidden")


def test_the_root_scope_asks_for_the_tenant_of_a_new_table(admin):
    body = {"name": "x", "columns": COLUMNS}
    missing = admin.post(admin.tables, json=body)
    unknown = admin.post(f"{admin.tables}?tenant={uuid4()}", json=body)

    assert problem(missing)[:2] == (400, "field_missing")
    assert faults(missing) == [("/tenant", "field_missing")]
    assert problem(unknown)[:2] == (404, "tenant_not_found")


def test_other_scopes_have_no_tenant_to_choose(moderator, tenant):
    answer = moderator.get(f"{moderator.tables}?tenant={tenant.id}")

    assert problem(answer)[:2] == (400, "field_unknown")


def test_each_scope_lists_what_it_reaches(
    admin, moderator, channel_moderator, stranger, tenant, other_tenant
):
    ours = new_table(moderator)[1]["id"]
    channels = new_table(channel_moderator)[1]["id"]
    theirs = new_table(stranger)[1]["id"]

    def listed(who, query=""):
        return [item["id"] for item in who.get(who.tables + query).json["items"]]

    assert listed(moderator) == [ours, channels]
    assert listed(channel_moderator) == [channels]
    assert listed(stranger) == [theirs]
    assert listed(admin) == [ours, channels, theirs]
    assert listed(admin, f"?tenant={other_tenant.id}") == [theirs]


def test_tables_are_listed_in_pages(moderator):
    made = [new_table(moderator, name=f"t{number}")[1]["id"] for number in range(5)]

    first = moderator.get(f"{moderator.tables}?limit=2").json
    second = moderator.get(f"{moderator.tables}?limit=3&cursor={first['next_cursor']}").json

    assert [item["id"] for item in first["items"] + second["items"]] == made
    assert second["next_cursor"] is None


def test_a_tampered_or_foreign_cursor_is_refused(moderator, stranger):
    for who in (moderator, stranger):
        new_table(who)
        new_table(who)
    cursor = moderator.get(f"{moderator.tables}?limit=1").json["next_cursor"]
    broken = ("B" if cursor[0] == "A" else "A") + cursor[1:]

    for who, given in ((moderator, broken), (stranger, cursor)):
        answer = who.get(f"{who.tables}?limit=1&cursor={given}")
        assert problem(answer)[:2] == (400, "cursor_invalid")
    trashed = moderator.get(f"{moderator.tables}?limit=1&trashed=true&cursor={cursor}")
    assert problem(trashed)[:2] == (400, "cursor_invalid")


def test_a_renamed_column_keeps_its_cells_and_its_triggers(authored, author):
    column = author.get(authored).json["columns"][1]
    record = author.post(f"{authored}/records", json={"data": {"到期時間": "2026-01-01"}}).json
    schedule = {"type": "date_column_reached", "column": "到期時間"}
    trigger = {
        "on": "schedule",
        "schedule": schedule,
        "actions": [{"type": "webhook", "url": "https://example.com/${row.到期時間}"}],
    }
    assert author.put(f"{authored}/triggers", json={"triggers": [trigger]}).status_code == 200

    columns = [{**column, "name": "due at"}]
    altered = author.patch(authored, json={"columns": columns})

    assert altered.json["columns"] == columns
    assert author.get(f"{authored}/records/{record['id']}").json["data"] == {"due at": "2026-01-01"}
    (stored,) = author.get(f"{authored}/triggers").json["triggers"]
    assert stored["schedule"]["column"] == "due at"
    assert stored["actions"][0]["url"] == "https://example.com/${row.due at}"


def test_a_change_of_a_stale_revision_is_refused(moderator, table):
    moderator.patch(table, json={"name": "second"})

    stale = moderator.patch(table, json={"name": "third"}, headers={"If-Match": '"1"'})
    present = moderator.patch(table, json={"name": "third"}, headers={"If-Match": '"2"'})

    assert problem(stale)[:2] == (412, "stale_version")
    assert present.json["name"] == "third"


def test_a_trashed_table_is_absent_until_it_is_restored(author, authored):
    record = author.post(f"{authored}/records", json={"data": {}}).json

    assert author.delete(authored).status_code == 204
    for answer in (
        author.get(authored),
        author.delete(authored),
        author.patch(authored, json={"name": "x"}),
        author.get(f"{authored}/records"),
        author.get(f"{authored}/records/{record['id']}"),
        author.get(f"{authored}/triggers"),
        author.get(f"{authored}/triggers/schedule-preview"),
        author.get(f"{authored}/trigger-runs"),
        author.post(f"{authored}/records", json={"data": {}}),
        author.put(f"{authored}/triggers", json={"triggers": []}),
    ):
        assert problem(answer)[:2] == (404, "table_not_found")

    trashed = author.get(f"{author.tables}?trashed=true").json["items"]
    assert [item["id"] for item in trashed] == [authored.rpartition("/")[2]]
    assert author.post(f"{authored}/restore").status_code == 200
    assert author.get(f"{authored}/records/{record['id']}").json == record
    assert problem(author.post(f"{authored}/restore"))[:2] == (404, "table_not_found")


def test_a_table_that_never_was_is_404(author):
    assert problem(author.get(f"{author.tables}/{uuid4()}"))[:2] == (404, "table_not_found")


def test_a_table_of_another_tenant_or_channel_is_403(
    moderator, stranger, channel_moderator, caller, tenant
):
    ours, _ = new_table(moderator)
    channels, _ = new_table(channel_moderator)
    elsewhere = caller(tenant, "moderator", channel_id=uuid4())

    assert problem(stranger.get(ours))[:2] == (403, "tenant_forbidden")
    for path in (ours, channels):
        path = path.replace("/tenant/", "/channel/")
        assert problem(elsewhere.get(path))[:2] == (403, "channel_forbidden")


def test_scopes_do_not_take_each_others_tokens(admin, moderator, channel_moderator, nobody):
    root, tenant, channel = admin.tables, moderator.tables, channel_moderator.tables

    for who in (moderator, channel_moderator, nobody):
        assert problem(who.get(root)) == (
            403,
            "admin_token_invalid",
            "BaseRoot access denied: Invalid X-ADMIN-TOKEN",
        )
    assert problem(channel_moderator.get(tenant))[:2] == (403, "channel_token_forbidden")
    assert problem(moderator.get(channel))[:2] == (403, "channel_token_needed")
    for path in (tenant, channel):
        for who in (admin, nobody):
            assert problem(who.get(path))[:2] == (401, "unauthenticated")


@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_editors_and_viewers_read_tables_and_change_none(role, caller, tenant, table):
    who = caller(tenant, role)

    assert who.get(table).status_code == 200
    assert who.get(who.tables).status_code == 200
    for answer in (
        who.post(who.tables, json={"name": "x", "columns": []}),
        who.patch(table, json={"name": "x"}),
        who.delete(table),
        who.post(f"{table}/restore"),
    ):
        assert problem(answer)[:2] == (403, "role_missing")


def test_services_see_no_tables(service, table):
    for answer in (service.get(table), service.get(service.tables)):
        assert problem(answer)[:2] == (403, "role_missing")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"columns": []}, [("/name", "field_missing")]),
        ({"name": "x"}, [("/columns", "field_missing")]),
        ({"name": "x", "columns": {}}, [("/columns", "columns_invalid")]),
        ({"name": "x", "columns": [1]}, [("/columns/0", "column_invalid")]),
        (
            {"name": "x", "columns": [{"name": "a", "type": "money"}]},
            [("/columns/0/type", "column_invalid")],
        ),
        (
            {"name": "x", "columns": [{"name": "a", "type": "text"}] * 2},
            [("/columns/1/name", "column_duplicate")],
        ),
        ({"name": "x", "columns": [], "triggers": []}, [("/triggers", "field_unknown")]),
        ({"name": "x", "columns": [], "channel_id": 5}, [("/channel_id", "field_invalid")]),
        ({"name": True, "columns": []}, [("/name", "field_invalid")]),
    ],
)
def test_a_table_of_wrong_parts_is_refused(body, where, moderator):
    answer = moderator.post(moderator.tables, json=body)

    assert problem(answer)[0] == 400
    assert faults(answer) == where
    assert moderator.get(moderator.tables).json["items"] == []


def test_a_table_is_made_once_under_an_idempotency_key(author, tenant):
    query = f"?tenant={tenant.id}" if author.tables.startswith("/root") else ""
    key = {"Idempotency-Key": "k1"}

    def make(**parts):
        body = {"name": "x", "columns": COLUMNS, **parts}
        return author.post(author.tables + query, json=body, headers=key)

    first, again, other = make(), make(), make(name="y")

    assert (again.status_code, again.data) == (201, first.data)
    assert again.headers["ETag"] == first.headers["ETag"]
    assert problem(other)[:2] == (409, "idempotency_key_reused")
    assert len(author.get(author.tables).json["items"]) == 1


def test_a_refused_request_does_not_use_its_key_up(moderator):
    key = {"Idempotency-Key": "k1"}
    refused = moderator.post(moderator.tables, json={"name": "x"}, headers=key)
    corrected = moderator.post(moderator.tables, json={"name": "x", "columns": []}, headers=key)

    assert problem(refused)[0] == 400
    assert corrected.status_code == 201
