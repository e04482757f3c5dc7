import json
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.integration.api.callers import faults, new_table, problem

CELLS = {
    "案件名稱": "a",
    "到期時間": "2026-07-25T09:00",
    "amount": 1.5,
    "done": True,
    "state": "open",
    "day": "not a date, kept as written",
    "more": {"deep": [1, None]},
}


@pytest.fixture
def records(authored):
    return f"{authored}/records"


def listed(who, path, *, where=None, **query):
    if where is not None:
        query["where"] = quote(json.dumps(where))
    return who.get(path + "?" + "&".join(f"{name}={value}" for name, value in query.items()))


def test_a_created_record_is_found_with_its_cells_by_name(author, records):
    made = author.post(records, json={"data": CELLS})
    found = author.get(f"{records}/{made.json['id']}")

    assert made.status_code == 201
    assert found.json == made.json
    assert found.json["data"] == CELLS
    assert found.headers["ETag"] == '"1"'


def test_a_change_touches_the_named_cells_alone(author, records):
    path = f"{records}/{author.post(records, json={'data': CELLS}).json['id']}"

    changed = author.patch(path, json={"data": {"amount": 2, "done": None}})

    assert changed.json["data"] == {**CELLS, "amount": 2, "done": None}
    assert changed.json["version"] == 2


def test_a_change_of_a_stale_version_is_refused(author, records):
    path = f"{records}/{author.post(records, json={'data': CELLS}).json['id']}"
    author.patch(path, json={"data": {"amount": 2}})

    stale = author.patch(path, json={"data": {"amount": 3}}, headers={"If-Match": '"1"'})

    assert problem(stale)[:2] == (412, "stale_version")
    assert author.get(path).json["data"]["amount"] == 2


def test_a_key_gives_no_answer_to_a_token_of_another_channel(caller, tenant, channel_moderator):
    records = new_table(channel_moderator)[0] + "/records"
    asked = {"json": {"data": CELLS}, "headers": {"Idempotency-Key": "k1"}}
    of_another = caller(tenant, "moderator", channel_id=uuid4())

    assert channel_moderator.post(records, **asked).status_code == 201
    assert problem(of_another.post(records, **asked))[0] == 409
    assert channel_moderator.post(records, **asked).status_code == 201


def test_a_deleted_record_is_absent_until_it_is_restored(author, records):
    made = author.post(records, json={"data": CELLS}).json
    path = f"{records}/{made['id']}"

    assert author.delete(path).status_code == 204
    for answer in (
        author.get(path),
        author.delete(path),
        author.patch(path, json={"data": {}}),
    ):
        assert problem(answer)[:2] == (404, "record_not_found")
    assert author.get(records).json["items"] == []

    restored = author.post(f"{path}/restore")
    assert restored.json["data"] == CELLS
    assert restored.json["deleted_at"] is None
    assert author.get(path).json == restored.json


def test_records_are_listed_in_pages(author, records):
    made = [
        author.post(records, json={"data": {"amount": number}}).json["id"] for number in range(5)
    ]

    first = listed(author, records, limit=2).json
    second = listed(author, records, limit=3, cursor=first["next_cursor"]).json

    assert [item["id"] for item in first["items"] + second["items"]] == made
    assert second["next_cursor"] is None


def test_a_list_has_the_records_that_match_its_predicates(author, records):
    for number in range(5):
        author.post(records, json={"data": {"amount": number, "state": "open"}})
    where = [
        {"column": "amount", "op": "gte", "value": 2},
        {"column": "state", "op": "eq", "value": "open"},
    ]

    first = listed(author, records, where=where, limit=2).json
    second = listed(author, records, where=where, limit=2, cursor=first["next_cursor"]).json

    assert [item["data"]["amount"] for item in first["items"] + second["items"]] == [2, 3, 4]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ({}, "when_predicate_invalid"),
        ([{"column": "nope", "op": "is_empty"}], "when_column_missing"),
        ([{"column": "amount", "op": "like", "value": 1}], "when_predicate_invalid"),
        ([{"column": "amount", "op": "eq", "value": "1"}], "when_predicate_invalid"),
        ([{"column": "amount", "op": "changed"}], "when_predicate_invalid"),
    ],
)
def test_predicates_that_say_nothing_are_refused(where, code, author, records):
    assert problem(listed(author, records, where=where))[:2] == (400, code)


@pytest.mark.parametrize("where", ["", "[", "NaN", "%00", "[" * 2000])
def test_predicates_that_are_no_json_are_refused(where, author, records):
    assert problem(author.get(f"{records}?where={where}"))[0] == 400


def test_a_cursor_is_void_with_other_predicates(author, records):
    for number in range(3):
        author.post(records, json={"data": {"amount": number}})
    cursor = listed(author, records, limit=1).json["next_cursor"]

    other = listed(author, records, limit=1, where=[], cursor=cursor)

    assert problem(other)[:2] == (400, "cursor_invalid")


@pytest.mark.parametrize(
    ("data", "pointer", "code"),
    [
        ({"nope": 1}, "/data/nope", "column_unknown"),
        ({"a/b~c": 1}, "/data/a~1b~0c", "column_unknown"),
        ({"amount": True}, "/data/amount", "cell_invalid"),
        ({"amount": "1"}, "/data/amount", "cell_invalid"),
        ({"done": 1}, "/data/done", "cell_invalid"),
        ({"state": "other"}, "/data/state", "cell_invalid"),
        ({"案件名稱": 1}, "/data/案件名稱", "cell_invalid"),
        ([], "/data", "field_invalid"),
        (None, "/data", "field_invalid"),
    ],
)
def test_cells_that_do_not_fit_their_columns_are_refused(data, pointer, code, author, records):
    made = author.post(records, json={"data": {}}).json

    for answer in (
        author.post(records, json={"data": data}),
        author.patch(f"{records}/{made['id']}", json={"data": data}),
    ):
        assert problem(answer)[0] == 400
        assert faults(answer) == [(pointer, code)]
    assert [item["version"] for item in author.get(records).json["items"]] == [1]


@pytest.mark.parametrize("number", ["9223372036854775808", "1" + "0" * 400, "1e400"])
@pytest.mark.parametrize("column", ["amount", "more"])
def test_a_number_that_a_cell_would_take_is_refused_when_it_is_too_large(
    column, number, moderator, table
):
    body = f'{{"data": {{"{column}": {number}}}}}'

    answer = moderator.post(f"{table}/records", data=body, content_type="application/json")

    assert problem(answer)[:2] == (400, "json_number_invalid")
    assert moderator.get(f"{table}/records").json["items"] == []


def test_faults_are_told_in_document_order_and_detail_is_the_first(author, records):
    body = '{"data": {"zzz": 1, "done": 1, "amount": "x"}}'

    answer = author.post(records, data=body, content_type="application/json")

    assert [pointer for pointer, _ in faults(answer)] == ["/data/zzz", "/data/done", "/data/amount"]
    assert answer.json["detail"] == answer.json["errors"][0]["detail"]


def test_a_record_is_made_once_under_an_idempotency_key(author, records):
    key = {"Idempotency-Key": "k1"}
    first = author.post(records, json={"data": CELLS}, headers=key)
    again = author.post(records, json={"data": CELLS}, headers=key)
    other = author.post(records, json={"data": {}}, headers=key)

    assert (again.status_code, again.data) == (201, first.data)
    assert problem(other)[:2] == (409, "idempotency_key_reused")
    assert len(author.get(records).json["items"]) == 1


def test_a_key_of_one_tenant_is_free_in_another(moderator, stranger):
    key = {"Idempotency-Key": "k1"}

    for who in (moderator, stranger):
        path, _ = new_table(who)
        made = who.post(f"{path}/records", json={"data": {}}, headers=key)
        assert made.status_code == 201


@pytest.mark.parametrize("role", ["editor", "service"])
def test_editors_and_services_write_records(role, caller, tenant, table):
    who = caller(tenant, role)

    made = who.post(f"{table}/records", json={"data": CELLS})
    path = f"{table}/records/{made.json['id']}"

    assert who.patch(path, json={"data": {"amount": 1}}).status_code == 200
    assert who.delete(path).status_code == 204
    assert who.post(f"{path}/restore").status_code == 200
    assert who.get(path).status_code == 200


def test_viewers_read_records_and_write_none(viewer, moderator, table):
    record = moderator.post(f"{table}/records", json={"data": CELLS}).json
    path = f"{table}/records/{record['id']}"

    assert viewer.get(path).json == record
    assert viewer.get(f"{table}/records").json["items"] == [record]
    for answer in (
        viewer.post(f"{table}/records", json={"data": {}}),
        viewer.post(f"{table}/records/bulk", data=b"{}", content_type="application/x-ndjson"),
        viewer.patch(path, json={"data": {}}),
        viewer.delete(path),
        viewer.post(f"{path}/restore"),
    ):
        assert problem(answer)[:2] == (403, "role_missing")


def test_a_record_of_another_table_is_absent(moderator, table):
    other, _ = new_table(moderator)
    record = moderator.post(f"{other}/records", json={"data": {}}).json
    path = f"{table}/records/{record['id']}"

    for answer in (
        moderator.get(path),
        moderator.patch(path, json={"data": {}}),
        moderator.delete(path),
        moderator.post(f"{path}/restore"),
    ):
        assert problem(answer)[:2] == (404, "record_not_found")


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.0", "٣", "9" * 19, "9" * 5000, "01"])
def test_what_is_no_id_is_404(number, moderator, table):
    assert problem(moderator.get(f"{table}/records/{number}"))[:2] == (404, "not_found")


def test_records_of_another_tenant_are_403(stranger, moderator, table):
    record = moderator.post(f"{table}/records", json={"data": {}}).json

    for answer in (
        stranger.get(f"{table}/records"),
        stranger.get(f"{table}/records/{record['id']}"),
        stranger.post(f"{table}/records", json={"data": {}}),
        stranger.post(f"{table}/records/bulk", data=b"{}", content_type="application/x-ndjson"),
    ):
        assert problem(answer)[:2] == (403, "tenant_forbidden")
