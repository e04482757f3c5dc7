"""Rules for the chatrooms of a channel: authored in every scope, and met by all who act in it."""

import pytest

from services.api.mounts import MOUNTS
from tests.integration.api.callers import CHANNEL, faults, new_table, problem

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
RULES = [
    {"operations": ["read", "create", "update", "delete"], "chatrooms": [ONE]},
    {"operations": ["read"], "chatrooms": [TWO]},
]
TRIGGER = {
    "on": "record_created",
    "actions": [{"type": "notify", "chatroom_id": ONE, "message": "x"}],
}
CELLS = {"data": {"amount": 1}}


def acting(chatroom):
    return {} if chatroom is None else {"headers": {"X-Acting-Chatroom": chatroom}}


@pytest.fixture
def ruled(author, tenant):
    """The path of a table of the channel, with rules, in the scope of the author."""
    path, _ = new_table(author, tenant=tenant, channel_id=str(CHANNEL))
    assert author.put(f"{path}/scp-rules", json={"rules": RULES}).status_code == 200
    return path


@pytest.fixture
def inside(channel_moderator, moderator):
    """The path of a table with rules in the scope of its channel, and the id of a record in it."""
    path, table = new_table(channel_moderator)
    above = f"{moderator.tables}/{table['id']}"
    record = moderator.post(f"{above}/records", json=CELLS).json["id"]
    channel_moderator.put(f"{path}/scp-rules", json={"rules": RULES})
    return path, record


def test_rules_are_set_and_read_in_every_scope(author, ruled):
    answer = author.get(f"{ruled}/scp-rules")

    assert answer.status_code == 200
    assert answer.json["rules"] == RULES
    assert answer.headers["ETag"] == f'"{answer.json["revision"]}"'
    assert author.get(ruled).json["revision"] == answer.json["revision"]


def test_a_table_has_no_rules_at_first(author, authored):
    assert author.get(f"{authored}/scp-rules").json["rules"] == []


def test_rules_are_replaced_in_the_version_that_was_seen(author, ruled):
    stale = author.put(f"{ruled}/scp-rules", json={"rules": []}, headers={"If-Match": '"1"'})
    assert problem(stale)[:2] == (412, "stale_version")

    etag = author.get(f"{ruled}/scp-rules").headers["ETag"]
    answer = author.put(f"{ruled}/scp-rules", json={"rules": []}, headers={"If-Match": etag})

    assert (answer.status_code, answer.json["rules"]) == (200, [])


def test_a_table_with_rules_takes_no_triggers(author, ruled):
    answer = author.put(f"{ruled}/triggers", json={"triggers": [TRIGGER]})

    assert problem(answer) == (
        400,
        "triggers_beside_scp_rules",
        "a table with channel SCP rules takes no triggers: "
        "a trigger has no acting chatroom and so cannot meet the channel floor",
    )
    assert author.put(f"{ruled}/triggers", json={"triggers": []}).status_code == 200


def test_a_table_with_triggers_takes_no_rules(author, tenant):
    path, _ = new_table(author, tenant=tenant, channel_id=str(CHANNEL))
    author.put(f"{path}/triggers", json={"triggers": [TRIGGER]})

    answer = author.put(f"{path}/scp-rules", json={"rules": RULES})

    assert problem(answer) == (
        400,
        "scp_rules_beside_triggers",
        "a table with triggers takes no channel SCP rules: "
        "a trigger has no acting chatroom and so cannot meet the channel floor",
    )
    assert author.put(f"{path}/scp-rules", json={"rules": []}).status_code == 200


def test_a_table_of_no_channel_takes_no_rules(moderator, table):
    answer = moderator.put(f"{table}/scp-rules", json={"rules": RULES})

    assert problem(answer)[:2] == (400, "scp_rules_without_channel")


def test_faults_of_rules_are_told_at_their_places(author, ruled):
    rules = [{"operations": ["write"], "chatrooms": [1]}, 1]

    answer = author.put(f"{ruled}/scp-rules", json={"rules": rules})

    assert faults(answer) == [
        ("/rules/0/chatrooms", "scp_rules_invalid"),
        ("/rules/0/operations", "scp_rules_invalid"),
        ("/rules/1", "scp_rules_invalid"),
    ]


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_a_moderator_sees_or_sets_rules(caller, tenant, inside, role):
    path, _ = inside
    who = caller(tenant, role, channel_id=CHANNEL)

    assert problem(who.get(f"{path}/scp-rules"))[:2] == (403, "role_missing")
    answer = who.put(f"{path}/scp-rules", json={"rules": []})
    assert problem(answer)[:2] == (403, "role_missing")


def everything(who, path, record, **acting):
    """Do all that can be done with records; return the status of each."""
    jsonl = {"data": b'{"amount": 2}\n', "content_type": "application/x-ndjson"}
    answers = {
        "list": who.get(f"{path}/records", **acting),
        "get": who.get(f"{path}/records/{record}", **acting),
        "create": who.post(f"{path}/records", json=CELLS, **acting),
        "bulk": who.post(f"{path}/records/bulk", **jsonl, **acting),
        "change": who.patch(f"{path}/records/{record}", json=CELLS, **acting),
        "delete": who.delete(f"{path}/records/{record}", **acting),
        "restore": who.post(f"{path}/records/{record}/restore", **acting),
    }
    return {name: answer.status_code for name, answer in answers.items()}


ALL = {
    "list": 200,
    "get": 200,
    "create": 201,
    "bulk": 200,
    "change": 200,
    "delete": 204,
    "restore": 200,
}
NOTHING = dict.fromkeys(ALL, 403)


@pytest.mark.parametrize(
    ("role", "chatroom", "expected"),
    [
        ("editor", ONE.upper(), ALL),
        ("moderator", TWO, NOTHING | {"list": 200, "get": 200}),
        ("service", "33333333-3333-4333-8333-333333333333", NOTHING),
        ("moderator", None, NOTHING),
    ],
)
def test_within_the_channel_the_acting_chatroom_may_do_what_a_rule_allows(
    caller, tenant, inside, role, chatroom, expected
):
    path, record = inside
    who = caller(tenant, role, channel_id=CHANNEL)

    assert everything(who, path, record, **acting(chatroom)) == expected


def test_a_viewer_of_the_channel_needs_a_rule_too(caller, tenant, inside):
    path, record = inside
    viewer = caller(tenant, "viewer", channel_id=CHANNEL)

    assert viewer.get(f"{path}/records/{record}", **acting(TWO)).status_code == 200
    assert viewer.get(f"{path}/records/{record}").status_code == 403


def test_the_refusals_say_what_is_missing(channel_moderator, inside):
    path, _ = inside

    missing = channel_moderator.get(f"{path}/records")
    forbidden = channel_moderator.post(f"{path}/records", json=CELLS, **acting(TWO))
    invalid = channel_moderator.get(f"{path}/records", **acting("chatroom"))

    assert problem(missing) == (
        403,
        "acting_chatroom_missing",
        "the table has channel SCP rules: X-Acting-Chatroom must name the acting chatroom",
    )
    assert problem(forbidden) == (
        403,
        "scp_rules_forbid",
        "no channel SCP rule of the table lets this chatroom create its records",
    )
    assert problem(invalid)[:2] == (400, "acting_chatroom_invalid")


def test_who_acts_for_the_whole_tenant_stands_above_the_floor(admin, moderator, inside):
    path, record = inside
    for who in (admin, moderator):
        above = f"{who.tables}/{path.rpartition('/')[2]}"

        assert everything(who, above, record) == ALL


def test_a_table_without_rules_asks_for_no_chatroom(channel_moderator):
    path, _ = new_table(channel_moderator)
    record = channel_moderator.post(f"{path}/records", json=CELLS).json["id"]

    assert everything(channel_moderator, path, record) == ALL


def test_an_answer_is_not_given_again_to_another_chatroom(channel_moderator, inside):
    path, _ = inside

    def create(chatroom):
        headers = {"Idempotency-Key": "k", "X-Acting-Chatroom": chatroom}
        return channel_moderator.post(f"{path}/records", json=CELLS, headers=headers)

    first = create(ONE)

    assert create(ONE).json == first.json
    assert problem(create(TWO))[0] in (403, 409)


def test_every_route_of_records_says_what_it_does_with_them():
    [channel] = [mount for mount in MOUNTS if mount.name == "channel"]
    of_records = [route for route in channel.routes if "/records" in route.path]

    assert len(of_records) >= 7
    assert [route.operation_id for route in of_records if route.acts is None] == []


@pytest.mark.parametrize("body", ["rule", "workflow", "trigger"])
def test_no_action_may_name_a_table_with_rules(moderator, inside, body):
    path, _ = inside
    action = {"type": "create_record", "table_id": path.rpartition("/")[2], "data": {}}
    match body:
        case "rule":
            rule = {"name": "r", "event": "e", "actions": [action]}
            answer = moderator.post("/v1/trigger-rules", json=rule)
        case "workflow":
            nodes = [{"type": "action", "action": action}]
            answer = moderator.post("/v1/workflows", json={"name": "w", "nodes": nodes})
        case _:
            other, _ = new_table(moderator)
            trigger = {"on": "record_created", "actions": [action]}
            answer = moderator.put(f"{other}/triggers", json={"triggers": [trigger]})

    assert problem(answer) == (
        400,
        "table_scp_ruled",
        "create_record table_id names a table with channel SCP rules: "
        "an action has no acting chatroom and so cannot meet the channel floor",
    )
