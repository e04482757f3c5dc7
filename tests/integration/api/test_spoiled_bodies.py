"""Sound bodies, spoiled in a few places: what a generator from schemas alone would not think of."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.integration.api.workspace import NOBODYS

EXAMPLES = 100


class Raw(str):
    """JSON text that no value of Python stands for."""

    __slots__ = ()


NUMBERS = [0, -1, 1.0, 0.5, 2**63 - 1, 2**63, -(2**64), 10**30, 1e308]
RAW = [
    Raw("NaN"),
    Raw("-Infinity"),
    Raw("1e400"),
    Raw("9" * 5000),
    Raw(r'"\u0000"'),
    Raw(r'"\ud800"'),
    Raw('{"a": 1, "a": 2}'),
    Raw("[" * 40 + "]" * 40),
    Raw("[" * 10_000),
    Raw(""),
]
TEXTS = [
    *("", " ", "\u202e", "案" * 300, "x" * 20_000, "%s{0}", "../etc/passwd", "a}b"),
    *("$row", "$row.", "${row.nope}", "$row.案件名稱", "${row.案件名稱} $row", "${", "$now"),
    *("2026-02-30", "9999-12-31 23:59", "0001-01-01", "24:00", "1/0", "* * * * 9", "@daily"),
    *("changed", "schedule", "record_deleted", "delete_record", "cron", "trg_0123456789ab"),
    *(str(NOBODYS), "https://example.com:99999", "http://[::1", "2026-01-01T00:00:00Z"),
]
OTHERS = [None, True, False, [], {}, [[]], [None], {"": None}, {"type": "cron"}, ["a"] * 300]
VALUES = [*NUMBERS, *RAW, *TEXTS, *OTHERS]

ACTIONS = [
    {"type": "notify", "chatroom_id": str(NOBODYS), "message": "$row.案件名稱"},
    {"type": "webhook", "url": "https://example.com", "headers": {"X": "y"}, "payload": {"a": [1]}},
    {"type": "api_call", "method": "POST", "url": "https://example.com", "query": {"a": "b"}},
    {"type": "update_record", "target": "$row", "data": {"amount": 1}, "on_error": "continue"},
    {"type": "delete_record", "target": 5},
    {"type": "create_record", "table_id": str(NOBODYS), "data": {"a": "$row.amount"}},
    {"type": "invoke_command", "command": "c", "inputs": {"to": "$row"}, "on_unknown": "fail"},
]
SCHEDULES = [
    {"type": "date_column_reached", "column": "到期時間", "offset_minutes": -60},
    {"type": "interval", "every_seconds": 60},
    {"type": "daily", "at": "01:30", "timezone": "Asia/Taipei"},
    {"type": "cron", "expression": "*/5 0 1 1 *", "timezone": "UTC"},
]
WHEN = [{"column": "案件名稱", "op": "eq", "value": "a"}]
TRIGGERS = [
    {"on": "schedule", "schedule": schedule, "when": WHEN, "actions": ACTIONS[:2]}
    for schedule in SCHEDULES[:3]
] + [{"id": "trg_0123456789ab", "on": "record_updated", "when": WHEN, "actions": ACTIONS}]
COLUMNS = [
    {"name": "案件名稱", "type": "text"},
    {"id": "c2", "name": "due", "type": "datetime"},
    {"name": "s", "type": "select", "options": ["a", "b"]},
]
INPUTS = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": [1, None]}},
    "required": ["a"],
    "additionalProperties": False,
}
RETRY = {"status": "failed", "from": "2026-01-01T00:00:00Z", "record_id": 1, "limit": 1}
CELLS = {"案件名稱": "a", "到期時間": "2026-01-01", "amount": 1, "done": True, "more": {"a": [1]}}
CONDITIONS = [
    {"column": "event.sum", "op": "gt", "value": 1},
    {"column": "line_user.plan", "op": "in", "value": ["a", "b"]},
]
NODES = [
    {"type": "action", "action": {**ACTIONS[0], "message": "$link.offer $event.a"}},
    {"type": "delay", "seconds": 60},
    {
        "type": "wait_for_tracking",
        "seconds": 60,
        "link": "offer",
        "target_url": "https://a.example",
        "clicked": [{"type": "stop"}],
        "not_clicked": [{"type": "branch", "when": CONDITIONS, "then": [], "else": []}],
    },
]
RULE = {
    "name": "n",
    "event": "e",
    "conditions": CONDITIONS,
    "actions": [
        {**ACTIONS[1], "delay": {"seconds": 5, "reEvaluateConditions": True}},
        {
            **ACTIONS[1],
            "delay": {
                "mode": "waitForTracking",
                "expiresSeconds": 60,
                "trackingLink": "$event.link",
                "on_expire": [{"type": "start_workflow", "workflow": "offer"}],
            },
        },
    ],
    "enabled": True,
}
CONTACT = {"external_id": "x", "display_name": "d", "attributes": {"a": 1, "b": ["c"]}}
EVENT = {"name": "ordered", "line_user_id": 1, "data": {"sum": 200}, "idempotency_key": "k"}
BODIES = [
    ("PUT", "{table}/triggers", {"triggers": TRIGGERS}),
    ("PATCH", "{table}", {"name": "n", "columns": COLUMNS}),
    ("POST", "{tables}", {"name": "n", "columns": COLUMNS[::2], "channel_id": None}),
    ("POST", "{table}/records", {"data": CELLS}),
    ("PATCH", "{table}/records/{record}", {"data": CELLS}),
    ("POST", "{table}/trigger-runs/retry", RETRY),
    ("POST", "/v1/commands", {"name": "n", "url": "https://a.example", "input_schema": INPUTS}),
    ("POST", "/v1/line-users", CONTACT),
    ("PATCH", "/v1/line-users/1", CONTACT),
    ("POST", "/v1/events", EVENT),
    ("POST", "/v1/trigger-rules", RULE),
    ("PUT", "/v1/trigger-rules/1", RULE),
    ("POST", "/v1/workflows", {"name": "w", "nodes": NODES}),
    ("PUT", "/v1/workflows/1", {"name": "w", "nodes": NODES}),
    ("POST", "/v1/workflows/1/executions", {"line_user_id": 1, "context": {"a": [1]}}),
    ("POST", "/v1/tokens", {"name": "n", "role": "viewer", "channel_id": str(NOBODYS)}),
]


def places(value, place=()):
    """Yield the place of every part of a JSON value but the whole."""
    match value:
        case dict():
            parts = value.items()
        case list():
            parts = enumerate(value)
        case _:
            return
    for key, part in parts:
        yield (*place, key)
        yield from places(part, (*place, key))


def copied(value):
    match value:
        case dict():
            return {key: copied(part) for key, part in value.items()}
        case list():
            return [copied(part) for part in value]
        case _:
            return value


def spoil(body, place, how, value):
    """Replace a part of the body, take it out, or put another beside it."""
    *above, key = place
    for step in above:
        body = body[step]
    if how == "replace":
        body[key] = value
    elif how == "remove":
        del body[key]
    elif isinstance(body, dict):
        body["surplus"] = value
    else:
        body.append(value)


def text_of(value):
    """Return the JSON text of a value, with raw parts as they are."""
    match value:
        case Raw():
            return str(value)
        case dict():
            return "{" + ",".join(f"{json.dumps(k)}:{text_of(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(text_of, value)) + "]"
        case _:
            return json.dumps(value)


@st.composite
def spoiled(draw, sound):
    body = copied(sound)
    for _ in range(draw(st.integers(1, 3))):
        if found := list(places(body)):
            how = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
            spoil(body, draw(st.sampled_from(found)), how, copied(draw(st.sampled_from(VALUES))))
    return text_of(body).encode()


@pytest.mark.parametrize("world", ["tenant"], indirect=True)
@pytest.mark.parametrize(
    ("method", "path", "sound"), BODIES, ids=[f"{method} {path}" for method, path, _ in BODIES]
)
def test_no_spoiled_body_breaks_the_api(method, path, sound, world):
    tables = world.who.tables
    table = f"{tables}/{world.ids['table_id'][0]}"
    path = path.format(tables=tables, table=table, record=world.ids["record_id"][0])
    answered = set()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(body=spoiled(sound))
    def drive(body):
        before = world.state()
        answer = world.who.request(method, path, data=body, content_type="application/json")
        answered.add(answer.status_code)
        assert answer.status_code < 500, answer.get_data(as_text=True)
        if answer.status_code >= 400:
            assert answer.content_type == "application/problem+json"
            assert world.state() == before

    drive()
    assert 400 in answered
