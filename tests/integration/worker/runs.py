"""Actions and claimed runs with defaults."""

from datetime import UTC, datetime
from uuid import uuid4

from shared.domain.runs import ClaimedRun

CHATROOM = "11111111-1111-4111-8111-111111111111"


def notify(message="case: $row.title", **more):
    return {"type": "notify", "chatroom_id": CHATROOM, "message": message, **more}


def api_call(url, **more):
    return {"type": "api_call", "method": "POST", "url": url, **more}


def a_claimed_run(**changes):
    values = {
        "id": 1,
        "tenant_id": uuid4(),
        "table_id": uuid4(),
        "table_lives": True,
        "trigger_id": "trg_000000000001",
        "kind": "record_created",
        "record_id": 1,
        "identity": "record_created:1",
        "window_key": None,
        "scheduled_for": datetime(2026, 7, 25, tzinfo=UTC),
        "definition_hash": bytes(32),
        "snapshot": {},
        "action_results": [],
        "open_action": None,
        "attempts": 1,
        "starts": 1,
        "worker_losses": 0,
        "depth": 0,
        "lease_token": uuid4(),
    }
    return ClaimedRun(**values | changes)
