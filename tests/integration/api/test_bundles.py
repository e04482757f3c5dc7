"""Export, plan and apply over HTTP: scopes, roles, answers, and everything that is refused."""

import json

import pytest

from shared.domain.bundles import MAX_BYTES, MAX_LINES
from tests.integration.api.callers import CHANNEL, faults, new_table, problem, send_stream

LINES = "application/x-ndjson"
NOTIFY = {"type": "notify", "chatroom_id": str(CHANNEL), "message": "$row.title"}
COLUMNS = [{"name": "title", "type": "text"}, {"name": "due", "type": "datetime"}]
ORDERS = {"kind": "table", "name": "orders", "columns": COLUMNS}
DUE = {"type": "date_column_reached", "column": "due"}
REMIND = {
    "kind": "trigger",
    "table": "orders",
    "id": "trg_00000000000a",
    "on": "schedule",
    "schedule": DUE,
    "actions": [NOTIFY],
}
RULE = {
    "kind": "trigger_rule",
    "name": "paid",
    "event": "paid",
    "actions": [{**NOTIFY, "message": "hi"}],
}
NOWHERE = "0" * 64


def document(*lines):
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def bundle(who, what="", **query):
    """Return the address of the bundle in the scope of a caller."""
    said = "&".join(f"{key}={value}" for key, value in query.items())
    return who.tables.removesuffix("/tables") + f"/bundle{what}" + (f"?{said}" if said else "")


def send(who, what, data, *, media=LINES, **query):
    return who.post(bundle(who, what, **query), data=data, content_type=media)


def plan(who, *lines, **query):
    answer = send(who, "/plan", document(*lines), **query)
    assert answer.status_code == 200, answer.text
    return answer.json


def apply(who, *lines, fingerprint=None, **query):
    fingerprint = fingerprint or plan(who, *lines, **query)["fingerprint"]
    return send(who, "/apply", document(*lines), fingerprint=fingerprint, **query)


def test_a_bundle_is_planned_applied_and_exported_in_every_scope(author, tenant):
    query = {"tenant": tenant.id} if author.tables.startswith("/root") else {}

    planned = plan(author, ORDERS, REMIND, **query)
    applied = apply(author, ORDERS, REMIND, **query)
    exported = author.get(bundle(author, **query))

    assert planned["counts"] == {"create": 2, "update": 0, "delete": 0, "noop": 0, "adopt": 0}
    assert applied.status_code == 200
    assert applied.json["counts"] == planned["counts"]
    assert exported.content_type == LINES
    assert [json.loads(line)["kind"] for line in exported.text.splitlines()] == ["table", "trigger"]
    again = send(author, "/plan", exported.data, **query).json
    assert again["counts"] == {"create": 0, "update": 0, "delete": 0, "noop": 2, "adopt": 0}


def test_a_plan_tells_differences_and_what_follows(moderator):
    path, table = new_table(moderator, name="orders", columns=COLUMNS)
    moderator.post(f"{path}/records", json={"data": {"due": "2020-01-02 03:04"}})
    columns = [{**table["columns"][1], "name": "till"}]
    trigger = {
        **REMIND,
        "schedule": {**DUE, "column": "till"},
        "actions": [{**NOTIFY, "message": "x"}],
    }

    told = plan(moderator, {**ORDERS, "columns": columns}, trigger, {**RULE, "enabled": False})

    assert told["items"][0] == {
        "line": 1,
        "kind": "table",
        "name": "orders",
        "table": None,
        "trigger_id": None,
        "action": "update",
        "changes": [
            {"op": "rename", "pointer": "/columns/0/name", "before": "due", "after": "till"},
            {"op": "remove", "pointer": "/columns", "before": table["columns"][0]},
        ],
        "more_changes": False,
        "problems": [],
        "consequence": None,
    }
    assert told["items"][1]["consequence"] == {
        "trigger_id": "trg_00000000000a",
        "kind": "date_column_reached",
        "consumed": 0,
        "held_back": 0,
        "fires_next_tick": 1,
        "oldest_due_at": "2020-01-02T03:04:00Z",
        "fires_within_24_hours": 0,
        "first_windows": [],
        "truncated": False,
    }
    assert moderator.get(path).json["columns"] == table["columns"]


def test_what_will_be_refused_is_planned_with_its_problem(moderator):
    offset = {**REMIND, "schedule": {**DUE, "offset_minutes": False}}
    message = (
        "date_column_reached offset_minutes must be an integer in [-43200, 43200]"
        " (negative = before the column instant, positive = after)"
    )

    told = plan(moderator, ORDERS, offset)["items"][1]

    assert told["problems"] == [
        {
            "pointer": "/schedule/offset_minutes",
            "code": "offset_minutes_invalid",
            "detail": message,
        }
    ]
    refused = apply(moderator, ORDERS, offset)
    assert problem(refused) == (400, "offset_minutes_invalid", message)
    assert faults(refused) == [("/2/schedule/offset_minutes", "offset_minutes_invalid")]
    assert moderator.get(bundle(moderator)).data == b""


def test_overdue_values_may_be_consumed_as_planned(moderator):
    path, _ = new_table(moderator, name="orders", columns=COLUMNS)
    moderator.post(f"{path}/records", json={"data": {"due": "2020-01-02 03:04"}})
    consume = {"on_existing": "consume"}

    told = plan(moderator, REMIND, **consume)

    consequence = told["items"][0]["consequence"]
    assert (consequence["fires_next_tick"], consequence["consumed"]) == (0, 1)
    other = apply(moderator, REMIND, fingerprint=told["fingerprint"])
    assert problem(other)[:2] == (409, "plan_stale")
    applied = apply(moderator, REMIND, fingerprint=told["fingerprint"], **consume)
    assert applied.status_code == 200
    preview = moderator.get(f"{path}/triggers/schedule-preview").json["triggers"][0]
    assert preview["due_now"] == 0
    refused = send(moderator, "/plan", document(REMIND), on_existing="drip")
    assert faults(refused) == [("/per_minute", "per_minute_invalid")]


def test_a_stale_plan_is_a_conflict(moderator):
    fingerprint = plan(moderator, ORDERS)["fingerprint"]
    assert apply(moderator, ORDERS, fingerprint=fingerprint).status_code == 200

    again = apply(moderator, ORDERS, fingerprint=fingerprint)

    assert problem(again)[:2] == (409, "plan_stale")


def test_an_export_of_tables_that_share_a_name_is_a_conflict(moderator):
    new_table(moderator, name="twice")
    new_table(moderator, name="twice")

    assert problem(moderator.get(bundle(moderator)))[:2] == (409, "table_ambiguous")
    refused = send(moderator, "/plan", document({**ORDERS, "name": "twice"}))
    assert faults(refused) == [("/1/name", "table_ambiguous")]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{\n[]", [("/1", "json_malformed"), ("/2", "bundle_line_invalid")]),
        (b"\xff\n", [("/1", "json_not_utf8")]),
        (document({**ORDERS, "colour": 1}), [("/1/colour", "field_unknown")]),
        (document(ORDERS, ORDERS), [("/2/name", "bundle_line_duplicate")]),
        (document({"kind": ["table"]}), [("/1/kind", "bundle_line_invalid")]),
        (document({**ORDERS, "columns": "no"}), [("/1/columns", "columns_invalid")]),
        (document(REMIND), [("/1/table", "table_unknown")]),
    ],
)
@pytest.mark.parametrize("what", ["/plan", "/apply"])
def test_what_is_no_document_is_refused_with_all_its_lines(moderator, data, told, what):
    query = {"fingerprint": NOWHERE} if what == "/apply" else {}

    refused = send(moderator, what, data, **query)

    assert refused.status_code == 400
    assert faults(refused) == told


@pytest.mark.parametrize(
    "line",
    [
        {**REMIND, "schedule": 7, "when": {}, "actions": "no", "on": [], "name": {}},
        {**REMIND, "id": "trg_00000000000b", "enabled": None, "actions": [{}]},
        {**RULE, "conditions": 7, "actions": {"a": 1}},
        {"kind": "workflow", "name": "w", "nodes": [{"type": "branch", "then": 7}, 7, None]},
        {"kind": "workflow", "name": "w", "nodes": {"type": "action"}},
        {"kind": "command", "name": "c", "url": "ftp:/x", "input_schema": {"type": "object"}},
        {"kind": "command", "name": "c", "url": "https://e.com", "input_schema": {"$ref": 7}},
        {"kind": "table", "name": "t", "columns": [{"name": "a", "type": []}]},
        {**REMIND, "actions": [{"type": "create_record", "table": "orders", "table_id": 1}]},
        {**REMIND, "actions": [{"type": "create_record", "table": {}, "data": []}]},
    ],
)
def test_values_of_the_wrong_shape_are_never_an_error_of_ours(moderator, line):
    assert apply(moderator, ORDERS).status_code == 200
    data = document(ORDERS, line) if line["kind"] == "trigger" else document(line)

    planned = send(moderator, "/plan", data)
    refused = planned
    if planned.status_code == 200:
        fingerprint = planned.json["fingerprint"]
        refused = send(moderator, "/apply", data, fingerprint=fingerprint)

    assert problem(refused)[0] == 400
    assert [
        json.loads(one)["kind"] for one in moderator.get(bundle(moderator)).text.splitlines()
    ] == ["table"]


def test_large_documents_are_refused_before_anything_is_read_of_them(moderator):
    blank = send(moderator, "/plan", b"\n" * MAX_LINES)
    large = send(moderator, "/plan", b" " * (MAX_BYTES + 1))

    for refused in (blank, large):
        assert problem(refused)[:2] == (413, "bundle_too_large")
    assert send(moderator, "/plan", b"\n" * (MAX_LINES - 1)).json["items"] == []


def test_a_document_that_is_cut_off_is_not_taken_for_whole(moderator):
    class Short:
        def __init__(self):
            self.pieces = [document(ORDERS)]

        def read(self, size=-1):
            return self.pieces.pop() if self.pieces else b""

    answer = send_stream(moderator, bundle(moderator, "/plan"), Short(), media=LINES, length=9999)

    assert problem(answer)[:2] == (400, "body_truncated")


def test_only_json_lines_are_taken(moderator):
    assert problem(send(moderator, "/plan", b"{}", media="application/json"))[0] == 415
    assert problem(moderator.post(bundle(moderator, "/plan"), content_type=LINES))[:2] == (
        400,
        "body_missing",
    )


@pytest.mark.parametrize("fingerprint", [None, "", "0" * 63])
def test_an_apply_names_the_plan_that_it_applies(moderator, fingerprint):
    query = {} if fingerprint is None else {"fingerprint": fingerprint}

    refused = send(moderator, "/apply", document(ORDERS), **query)

    assert refused.status_code == 400
    assert [pointer for pointer, _ in faults(refused)] == ["/fingerprint"]
    unknown = send(moderator, "/apply", document(ORDERS), fingerprint=NOWHERE)
    assert problem(unknown)[:2] == (409, "plan_stale")


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_bundles_need_a_moderator(caller, tenant, role):
    who = caller(tenant, role)

    for answer in (
        who.get(bundle(who)),
        send(who, "/plan", document(ORDERS)),
        send(who, "/apply", document(ORDERS), fingerprint=NOWHERE),
    ):
        assert problem(answer)[:2] == (403, "role_missing")


def test_the_operator_names_the_tenant(admin, tenant):
    for answer in (
        admin.get(bundle(admin)),
        send(admin, "/plan", document(ORDERS)),
        send(admin, "/apply", document(ORDERS), fingerprint=NOWHERE),
    ):
        assert problem(answer)[:2] == (400, "field_missing")


def test_nothing_of_another_tenant_is_exported_or_named(moderator, stranger):
    apply(moderator, ORDERS, REMIND, RULE)

    assert stranger.get(bundle(stranger)).data == b""
    assert plan(stranger, ORDERS, REMIND, RULE)["counts"]["create"] == 3


def test_a_channel_has_its_tables_alone(channel_moderator, moderator):
    apply(moderator, {**ORDERS, "name": "cases"}, RULE)

    assert apply(channel_moderator, ORDERS, REMIND).status_code == 200

    exported = channel_moderator.get(bundle(channel_moderator)).text
    assert [json.loads(line)["kind"] for line in exported.splitlines()] == ["table", "trigger"]
    refused = send(channel_moderator, "/plan", document(RULE))
    assert faults(refused) == [("/1/kind", "bundle_kind_forbidden")]
    for elsewhere in (None, "c0000000-0000-4000-8000-000000000002"):
        line = {**ORDERS, "name": "new", "channel_id": elsewhere}
        refused = send(channel_moderator, "/plan", document(line))
        assert faults(refused) == [("/1/channel_id", "channel_forbidden")]


def test_a_limit_of_the_tenant_refuses_all_of_it(moderator):
    starts = [
        {"kind": "workflow", "name": f"w{n}", "nodes": [{"type": "stop"}]} for n in range(501)
    ]

    assert problem(apply(moderator, ORDERS, *starts))[:2] == (409, "workflows_too_many")
    assert moderator.get(bundle(moderator)).data == b""
