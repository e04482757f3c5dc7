"""One of everything that an address may name, in a tenant and a channel of it."""

from dataclasses import dataclass
from uuid import uuid4

from psycopg.types.json import Jsonb

from tests.builders import a_stored_trigger
from tests.builders_db import (
    LONG_AGO,
    insert_records,
    insert_row,
    insert_run,
    insert_state,
    insert_table,
    trigger_id,
)
from tests.builders_delayed import (
    insert_action,
    insert_execution,
    insert_line_user,
    insert_link,
    insert_workflow,
)
from tests.builders_rules import insert_rule
from tests.builders_staged import insert_change

_SCHEDULE = {"type": "date_column_reached", "column": "due"}


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """Where things are, and a word that stands in each of them."""

    id: object
    mark: str


def table_things(conn, tenant, *, channel_id=None, gone=False):
    """Insert a table with one of everything; ``gone``: table and record are in the trash."""
    id = trigger_id()
    table = insert_table(
        conn,
        tenant_id=tenant.id,
        channel_id=channel_id,
        name=f"{tenant.mark} {uuid4()}",
        triggers=[a_stored_trigger(id=id, name=tenant.mark, schedule=_SCHEDULE)],
        **({"trashed_at": LONG_AGO} if gone else {}),
    )
    insert_state(conn, table, trigger_id=id, schedule=_SCHEDULE)
    live = insert_records(conn, table, [{"c1": tenant.mark, "c2": "2026-01-01"}])[0]
    deleted = insert_records(conn, table, [{"c1": tenant.mark}], deleted_at=LONG_AGO)[0]
    return {
        "table_id": table.id,
        "trigger_id": id,
        "record_id": live.id,
        "deleted_record_id": deleted.id,
        "run_id": insert_run(conn, table, snapshot=Jsonb({"c1": tenant.mark})),
        "change_id": insert_change(conn, table, proposed=Jsonb({"c1": tenant.mark})),
    }


def tenant_things(conn, tenant):
    """Insert one of everything that belongs to the tenant itself."""
    named = {"tenant_id": tenant.id, "name": f"{tenant.mark} {uuid4()}", "created_at": LONG_AGO}
    execution = insert_execution(conn, tenant.id)
    return {
        "token_id": insert_row(
            conn, "api_token", role="viewer", token_hash=uuid4().bytes * 2, **named
        ),
        "command_id": insert_row(
            conn,
            "command",
            url="https://example.com",
            input_schema=Jsonb({"type": "object", "properties": {}}),
            updated_at=LONG_AGO,
            **named,
        ),
        "line_user_id": insert_line_user(conn, tenant.id, display_name=tenant.mark),
        "rule_id": insert_rule(conn, tenant.id, name=named["name"]),
        "workflow_id": execution["workflow_id"],
        "version": 1,
        "execution_id": execution["execution_id"],
        "link_id": insert_link(conn, tenant.id, name=tenant.mark),
        "event_id": insert_row(
            conn,
            "event",
            tenant_id=tenant.id,
            name=tenant.mark,
            data=Jsonb({"mark": tenant.mark}),
            created_at=LONG_AGO,
        ),
        "action_id": insert_action(conn, tenant.id, line_user_id=None),
        "idle_workflow_id": insert_workflow(conn, tenant.id),
        "chatroom_id": _chatroom(conn, tenant),
        "secret_name": _secret(conn, tenant),
    }


def _secret(conn, tenant):
    name = f"{tenant.mark}-{uuid4()}"
    insert_row(
        conn,
        "secret",
        tenant_id=tenant.id,
        name=name,
        value=b"canary",
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
    )
    return name


def _chatroom(conn, tenant):
    chatroom_id = uuid4()
    insert_row(
        conn,
        "chat_message",
        tenant_id=tenant.id,
        chatroom_id=chatroom_id,
        message=tenant.mark,
        origin_key=str(chatroom_id),
        created_at=LONG_AGO,
    )
    return chatroom_id
