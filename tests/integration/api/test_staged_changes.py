from uuid import uuid4

import pytest

from shared.queries.custom_tables import find_table
from shared.queries.notifications import listen_for_work
from shared.queries.records import find_record
from tests.builders_staged import insert_change, insert_delete, insert_update
from tests.integration.api.callers import faults, new_table, problem

MISSING = 2**63 - 1
ENDED = ("approved", "rejected", "applied", "failed")


@pytest.fixture
def asking(author, tenant):
    """The path of a table that asks for approval, in the scope of the author."""
    return new_table(author, tenant=tenant, approval="required")[0]


@pytest.fixture
def stage(conn, asking):
    """Stages changes of the table as actions do."""
    table = find_table(conn, asking.rpartition("/")[2])

    def stage(insert=insert_change, *own, **more):
        return insert(conn, table, *own, **more)

    stage.record = lambda id: find_record(conn, table, id)
    return stage


def listed(who, table, **query):
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return [one["id"] for one in who.get(f"{table}/staged-changes?{text}").json["items"]]


def test_a_change_tells_its_cells_by_name(author, asking, stage):
    created = author.post(f"{asking}/records", json={"data": {"amount": 1, "done": True}}).json
    record = stage.record(created["id"])
    ids = [
        stage(),
        stage(insert_update, record, cells={"c3": 2, "c1": "x"}),
        stage(insert_delete, record),
    ]

    create, update, delete = (author.get(f"{asking}/staged-changes/{id}").json for id in ids)

    assert (create["operation"], create["base"], create["record_id"]) == ("create", None, None)
    assert create["proposed"] == {"案件名稱": "proposed"}
    assert update["proposed"] == {"案件名稱": "x", "amount": 2}
    assert update["base"] == {"案件名稱": None, "amount": 1}
    assert (update["base_version"], update["record_id"]) == (1, record.id)
    assert (delete["proposed"], delete["base"]) == (None, {"amount": 1, "done": True})
    assert create["status"] == "pending"
    for absent in ("reviewed_at", "reviewed_by", "reason", "error", "finished_at"):
        assert create[absent] is None
    assert (create["run_id"], create["scheduled_action_id"]) == (1, None)


def test_cells_are_told_by_the_names_that_columns_have_now(author, asking, stage):
    change_id = stage()
    columns = author.get(asking).json["columns"]
    author.patch(asking, json={"columns": [{**columns[0], "name": "other"}, *columns[2:]]})

    assert author.get(f"{asking}/staged-changes/{change_id}").json["proposed"] == {
        "other": "proposed"
    }


def test_people_write_without_approval(author, asking):
    created = author.post(f"{asking}/records", json={"data": {"amount": 1}})

    assert created.status_code == 201
    assert author.get(f"{asking}/staged-changes").json["items"] == []


def test_changes_are_listed_in_pages_and_by_filter(author, asking, stage):
    author.post(f"{asking}/records", json={"data": {}})
    record = stage.record(author.get(f"{asking}/records").json["items"][0]["id"])
    first, second = stage(), stage(status="failed", run_id=7)
    third = stage(insert_update, record)

    page = author.get(f"{asking}/staged-changes?limit=2").json
    rest = author.get(f"{asking}/staged-changes?limit=2&cursor={page['next_cursor']}").json

    assert [one["id"] for one in page["items"] + rest["items"]] == [third, second, first]
    assert rest["next_cursor"] is None
    assert listed(author, asking, status="pending") == [third, first]
    assert listed(author, asking, status="failed") == [second]
    assert listed(author, asking, operation="update") == [third]
    assert listed(author, asking, record_id=record.id) == [third]
    assert listed(author, asking, run_id=7) == [second]
    assert listed(author, asking, to="2020-01-01T00:00:00Z") == []
    assert listed(author, asking, **{"from": "2020-01-01T00:00:00Z"}) == [third, second, first]


def test_a_filter_that_is_not_understood_is_refused(moderator, table):
    for query in ("status=done", "operation=upsert", "record_id=0", "run_id=x", "state=pending"):
        assert problem(moderator.get(f"{table}/staged-changes?{query}"))[0] == 400


def test_what_is_approved_waits_for_a_worker_and_is_told_to_the_scanner(
    author, asking, stage, other_conn
):
    listen_for_work(other_conn)
    change_id = stage()

    answer = author.post(f"{asking}/staged-changes/{change_id}/approve")

    assert answer.status_code == 200
    assert (answer.json["status"], answer.json["reason"]) == ("approved", None)
    assert answer.json["reviewed_at"] == answer.json["updated_at"] is not None
    assert answer.json["finished_at"] is None
    assert [one.channel for one in other_conn.notifies(timeout=5, stop_after=1)] == ["duebook_work"]


def test_what_is_rejected_has_ended_with_the_reason(author, asking, stage, conn):
    change_id = stage()

    answer = author.post(
        f"{asking}/staged-changes/{change_id}/reject", json={"reason": "too early"}
    )

    assert (answer.json["status"], answer.json["reason"]) == ("rejected", "too early")
    assert answer.json["finished_at"] is not None
    assert author.get(f"{asking}/records").json["items"] == []


def test_the_token_of_a_review_is_kept_and_the_admin_has_none(
    admin, moderator, tenant, conn, table
):
    changes = [insert_change(conn, table.rpartition("/")[2]) for _ in range(2)]
    at_root = table.replace("/tenant/", "/root/")

    moderators = moderator.post(f"{table}/staged-changes/{changes[0]}/approve", json={}).json
    admins = admin.post(f"{at_root}/staged-changes/{changes[1]}/reject", json={}).json

    (token,) = (
        one["id"] for one in moderator.get("/v1/tokens").json["items"] if one["role"] == "moderator"
    )
    assert moderators["reviewed_by"] == token
    assert admins["reviewed_by"] is None
    assert admins["reviewed_at"] is not None


@pytest.mark.parametrize(("verb", "done"), [("approve", "approved"), ("reject", "rejected")])
def test_only_what_is_pending_is_reviewed(verb, done, moderator, table, conn):
    for status in ENDED:
        change_id = insert_change(conn, table.rpartition("/")[2], status=status)

        answer = moderator.post(f"{table}/staged-changes/{change_id}/{verb}")

        assert problem(answer) == (
            409,
            "staged_change_not_pending",
            f"staged change {change_id} is {status}; only pending ones can be {done}",
        )


REVIEWS = [
    ({"reason": ""}, ("/reason", "field_invalid")),
    ({"reason": "x" * 1001}, ("/reason", "field_invalid")),
    ({"reason": True}, ("/reason", "field_invalid")),
    ({"comment": "x"}, ("/comment", "field_unknown")),
    ({"limit": 5}, ("/limit", "field_unknown")),
]


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_review_that_is_not_understood_is_refused(verb, moderator, table, conn):
    change_id = insert_change(conn, table.rpartition("/")[2])

    for body, fault in REVIEWS:
        answer = moderator.post(f"{table}/staged-changes/{change_id}/{verb}", json=body)
        assert problem(answer)[0] == 400
        assert faults(answer) == [fault]

    assert moderator.get(f"{table}/staged-changes/{change_id}").json["status"] == "pending"


def test_all_that_a_filter_finds_are_reviewed_the_oldest_first(author, asking, stage):
    ids = [stage(run_id=run) for run in (1, 2, 2, 3)]
    stage(status="failed")
    path = f"{asking}/staged-changes"

    rejected = author.post(f"{path}/reject", json={"run_id": 2, "reason": "no"})
    some = author.post(f"{path}/approve", json={"limit": 1})
    rest = author.post(f"{path}/approve", json={})
    none = author.post(f"{path}/approve", json={"operation": "delete"})

    assert rejected.json == {"reviewed": 2, "more": False}
    assert some.json == {"reviewed": 1, "more": True}
    assert rest.json == {"reviewed": 1, "more": False}
    assert none.json == {"reviewed": 0, "more": False}
    assert listed(author, asking, status="rejected") == [ids[2], ids[1]]
    assert listed(author, asking, status="approved") == [ids[3], ids[0]]
    assert author.get(f"{path}/{ids[1]}").json["reason"] == "no"


def test_a_filter_of_a_review_that_is_not_understood_is_refused(moderator, table):
    for body in ({"status": "pending"}, {"limit": 0}, {"limit": 1001}, {"record_id": True}):
        for verb in ("approve", "reject"):
            assert problem(moderator.post(f"{table}/staged-changes/{verb}", json=body))[0] == 400


def _all(who, table, change_id):
    """The answers of all routes."""
    path = f"{table}/staged-changes"
    yield who.get(path)
    yield who.get(f"{path}/{change_id}")
    for verb in ("approve", "reject"):
        yield who.post(f"{path}/{verb}", json={})
        yield who.post(f"{path}/{change_id}/{verb}", json={})


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_others_than_moderators_do_not_even_see_changes(role, request, table, conn):
    change_id = insert_change(conn, table.rpartition("/")[2])

    for answer in _all(request.getfixturevalue(role), table, change_id):
        assert problem(answer)[:2] == (403, "role_missing")


def test_nobody_reaches_the_changes_of_another_tenant_or_channel(
    stranger, channel_moderator, moderator, caller, tenant, nobody, conn
):
    table, made = new_table(channel_moderator, approval="required")
    change_id = insert_change(conn, made["id"])
    tenants = table.replace("/channel/", "/tenant/")
    other = caller(tenant, "moderator", channel_id=uuid4())

    for answer in _all(other, table, change_id):
        assert problem(answer)[:2] == (403, "channel_forbidden")
    for answer in _all(stranger, tenants, change_id):
        assert problem(answer)[:2] == (403, "tenant_forbidden")
    for answer in _all(nobody, tenants, change_id):
        assert problem(answer)[0] == 401
    assert moderator.get(f"{tenants}/staged-changes/{change_id}").json["status"] == "pending"


def test_a_change_that_is_not_there_is_404(author, asking, tenant, stage, conn):
    elsewhere = insert_change(conn)
    change_id = stage()
    other, _ = new_table(author, tenant=tenant)

    for table, id in ((asking, MISSING), (asking, elsewhere), (other, change_id)):
        for answer in (
            author.get(f"{table}/staged-changes/{id}"),
            author.post(f"{table}/staged-changes/{id}/approve"),
            author.post(f"{table}/staged-changes/{id}/reject"),
        ):
            assert problem(answer)[:2] == (404, "staged_change_not_found")


def test_the_changes_of_a_trashed_table_are_absent_until_it_is_restored(author, asking, stage):
    change_id = stage()
    author.delete(asking)

    for answer in _all(author, asking, change_id):
        assert problem(answer)[:2] == (404, "table_not_found")
    author.post(f"{asking}/restore")
    assert author.get(f"{asking}/staged-changes/{change_id}").json["status"] == "pending"
