"""Rules, workflows and what they start, with defaults, for tests with a database."""

from psycopg.types.json import Jsonb

from tests.builders_db import LONG_AGO, insert_row

NOTIFY = {"type": "notify", "chatroom_id": "11111111-1111-4111-8111-111111111111", "message": "hi"}


def action_node(**parts):
    """Return a node with an action."""
    return {"type": "action", "action": {**NOTIFY, **parts}}


def wait_node(*, link="offer", seconds=3600, clicked=(), not_clicked=()):
    """Return a node that waits for a click."""
    return {
        "type": "wait_for_tracking",
        "seconds": seconds,
        "link": link,
        "target_url": "https://example.com/offer",
        "clicked": list(clicked),
        "not_clicked": list(not_clicked),
    }


def insert_rule(conn, tenant_id, *, name="rule", event="ordered", **parts):
    """Insert an enabled rule with one action and return its id."""
    values = {"conditions": [], "actions": [NOTIFY]} | parts
    documents = {key: Jsonb(values.pop(key)) for key in ("conditions", "actions")}
    times = {"created_at": LONG_AGO, "updated_at": LONG_AGO}
    return insert_row(
        conn,
        "trigger_rule",
        tenant_id=tenant_id,
        name=name,
        event=event,
        **documents | times | values,
    )
