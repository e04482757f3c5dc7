"""What a tenant may have: the last one is taken, one more is refused, and room can be made."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from services.api.app import create_app
from shared.db.clock import server_now
from shared.settings import read_settings
from shared.usecases import (
    manage_commands,
    manage_rules,
    manage_secrets,
    manage_tables,
    tenant_limits,
    tokens,
)
from shared.usecases.tenant_limits import (
    COMMANDS,
    RULES,
    SECRETS,
    SIGNING_KEYS,
    TABLES,
    TOKENS,
    TRIGGERS,
    WaitingLimit,
    check_room,
)
from tests.integration.api.callers import COLUMNS, new_table, problem

NOTIFY = {
    "type": "notify",
    "chatroom_id": "11111111-1111-4111-8111-111111111111",
    "message": "Hi",
}
TRIGGER = {"on": "record_created", "actions": [NOTIFY]}


@dataclass(frozen=True, kw_only=True)
class Made:
    """Something that is limited: how it is made, what is there before, and how room is made."""

    module: Any
    limit: str
    path: str
    body: dict[str, Any] | None
    names: str | None = None
    before: int = 0
    removed: bool = True


MADE = [
    Made(
        module=manage_tables,
        limit="TABLES",
        path="/tenant/custom-tables/tables",
        body={"columns": COLUMNS},
        names="name",
    ),
    Made(
        module=manage_rules,
        limit="RULES",
        path="/v1/trigger-rules",
        body={"event": "paid", "actions": [NOTIFY]},
        names="name",
    ),
    Made(
        module=manage_commands,
        limit="COMMANDS",
        path="/v1/commands",
        body={"url": "https://example.com", "input_schema": {"type": "object"}},
        names="name",
    ),
    # The caller has one of them.
    Made(
        module=tokens,
        limit="TOKENS",
        path="/v1/tokens",
        body={"role": "viewer"},
        names="name",
        before=1,
    ),
    # A tenant is born with one; they end by themselves.
    Made(
        module=tokens,
        limit="SIGNING_KEYS",
        path="/v1/signing-keys",
        body=None,
        before=1,
        removed=False,
    ),
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.limit)
def test_the_last_one_is_taken_and_one_more_refused(made, monkeypatch, moderator, stranger):
    limit = getattr(made.module, made.limit)
    monkeypatch.setattr(made.module, made.limit, replace(limit, most=2 + made.before))

    def make(number, who=moderator):
        body = made.body
        if made.names is not None:
            body = {**body, made.names: f"n{number}"}
        return who.post(made.path, **({} if body is None else {"json": body}))

    first, second = make(1), make(2)
    assert (first.status_code, second.status_code) == (201, 201), first.json

    refused = make(3)
    assert problem(refused)[:2] == (409, f"{limit.counted}_too_many")
    assert make(3, stranger).status_code == 201

    if made.removed:
        assert moderator.delete(f"{made.path}/{first.json['id']}").status_code == 204
        assert make(3).status_code == 201


def test_a_restored_table_needs_room(monkeypatch, moderator):
    first, _ = new_table(moderator)
    moderator.delete(first)
    new_table(moderator)
    monkeypatch.setattr(manage_tables, "TABLES", replace(TABLES, most=1))

    assert problem(moderator.post(f"{first}/restore"))[:2] == (409, "tables_too_many")

    monkeypatch.setattr(manage_tables, "TABLES", replace(TABLES, most=2))
    assert moderator.post(f"{first}/restore").status_code == 200


def test_a_secret_of_a_new_name_needs_room_and_another_value_does_not(
    monkeypatch, moderator, stranger
):
    monkeypatch.setattr(manage_secrets, "SECRETS", replace(SECRETS, most=1))

    def put(name, who=moderator):
        return who.put(f"/v1/secrets/{name}", json={"value": "v"})

    assert put("first").status_code == 201
    assert problem(put("second"))[:2] == (409, "secrets_too_many")
    assert put("first").status_code == 200
    assert put("second", stranger).status_code == 201
    moderator.delete("/v1/secrets/first")
    assert put("second").status_code == 201


def test_triggers_of_all_tables_count_together(monkeypatch, moderator):
    monkeypatch.setattr(tenant_limits, "TRIGGERS", replace(TRIGGERS, most=3))
    one, other = new_table(moderator)[0], new_table(moderator)[0]

    def put(table, count):
        return moderator.put(f"{table}/triggers", json={"triggers": [TRIGGER] * count})

    assert put(one, 2).status_code == 200
    assert problem(put(other, 2))[:2] == (409, "triggers_too_many")
    assert put(other, 1).status_code == 200
    assert put(one, 2).status_code == 200
    monkeypatch.setattr(tenant_limits, "TRIGGERS", replace(TRIGGERS, most=1))
    assert put(one, 1).status_code == 200


def test_whoever_makes_one_waits_for_another_who_does(conn, other_conn, tenant):
    other_conn.execute("SET lock_timeout = '20ms'")
    now = server_now(conn)

    with conn.transaction():
        check_room(conn, tenant.id, COMMANDS, now=now)
        with pytest.raises(psycopg.errors.LockNotAvailable), other_conn.transaction():
            check_room(other_conn, tenant.id, TOKENS, now=now)


def test_who_has_as_many_waiting_as_it_may_adds_none(parts, moderator, stranger):
    rule = {
        "name": "r",
        "event": "paid",
        "actions": [{**NOTIFY, "delay": {"seconds": 600}}, {**NOTIFY, "delay": {"seconds": 60}}],
    }
    nodes = [{"type": "delay", "seconds": 600}]
    for who in (moderator, stranger):
        assert who.post("/v1/trigger-rules", json=rule).status_code == 201
    workflow = moderator.post("/v1/workflows", json={"name": "w", "nodes": nodes})
    assert workflow.status_code == 201, workflow.json
    first = {"name": "paid", "idempotency_key": "first"}
    assert moderator.post("/v1/events", json=first).status_code == 201

    client = create_app(replace(parts, waiting=WaitingLimit(2))).test_client()
    full, other = replace(moderator, client=client), replace(stranger, client=client)

    code = "scheduled_actions_too_many"
    executions = f"/v1/workflows/{workflow.json['id']}/executions"
    assert problem(full.post("/v1/events", json={"name": "paid"}))[:2] == (409, code)
    assert problem(full.post(executions, json={}))[:2] == (409, code)
    # What leads to nothing, what was taken before, and what others do is not held up.
    assert full.post("/v1/events", json={"name": "other"}).status_code == 201
    assert full.post("/v1/events", json=first).status_code == 201
    assert other.post("/v1/events", json={"name": "paid"}).status_code == 201
    # Each process looks once in a while: a new one sees the room that was made.
    for action in full.get("/v1/scheduled-actions").json["items"]:
        full.post(f"/v1/scheduled-actions/{action['id']}/cancel")
    assert full.post("/v1/events", json={"name": "paid"}).status_code == 409
    client = create_app(replace(parts, waiting=WaitingLimit(2))).test_client()
    assert replace(moderator, client=client).post(executions, json={}).status_code == 201


def test_what_docs_tell_of_the_limits_is_true(monkeypatch):
    text = Path("docs/limits.md").read_text("utf-8")

    for limit in (TABLES, TRIGGERS, RULES, COMMANDS, SECRETS, TOKENS, SIGNING_KEYS):
        assert f"{limit.most:,} | 409 `{limit.counted}_too_many`" in text
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/duebook")
    assert read_settings("worker").max_waiting == WaitingLimit()._most
