"""A claim notes the intent of an external action that comes first, except where it must not."""

import pytest
from psycopg.types.json import Jsonb

from shared.domain.definitions import definition_hash
from shared.domain.work import Reference
from shared.queries.claims import claim, claim_actions, claim_due, claim_due_actions
from tests.builders_db import cells_of, insert_run, insert_table
from tests.builders_delayed import insert_action

LEASE = {"worker_id": 3, "lease_seconds": 300, "external_types": ["webhook", "api_call"]}
TOKEN = "00000000-0000-4000-8000-000000000007"
DUE = {"urgent": False, "limit": 5, "after": None}

OPENED = [
    ({"type": "webhook"}, 0),
    ({"type": "api_call", "on_unknown": "retry"}, 0),
    ({"type": "api_call", "on_unknown": "fail"}, None),
    ({"type": "notify"}, None),
]


def run_of(conn, *actions, **columns):
    """Insert a due run of these actions and return its id."""
    table = insert_table(conn)
    body = {"v": 1, "trigger": {"actions": actions}, "columns": []}
    digest = definition_hash(body)
    conn.execute(
        "INSERT INTO definition (tenant_id, hash, body) VALUES (%s, %s, %s)",
        [table.tenant_id, digest, Jsonb(body)],
    )
    return insert_run(conn, table, definition_hash=digest, **columns)


def opened(conn, kind, id, *, by_reference=True):
    """Claim a row, and return what it then tells of an action that may have been sent."""
    reference = Reference(id=id, token=cells_of(conn, kind, id, "lease_token")[0])
    lease = LEASE | {"lease_token": TOKEN}
    if kind == "trigger_run":
        (run,) = (
            claim(conn, [reference], **lease) if by_reference else claim_due(conn, **DUE, **lease)
        )
        assert run.open_action == cells_of(conn, kind, id, "open_action")[0]
    elif by_reference:
        assert claim_actions(conn, [reference], **lease) == [id]
    else:
        assert claim_due_actions(conn, **DUE, **lease) == [id]
    return cells_of(conn, kind, id, "open_action")[0]


@pytest.mark.parametrize("by_reference", [True, False])
@pytest.mark.parametrize(("config", "expected"), OPENED)
def test_the_claim_notes_what_may_be_sent(conn, config, expected, by_reference):
    run_id = run_of(conn, config, {"type": "webhook"})
    action_id = insert_action(conn, action_type=config["type"], action_config=Jsonb(config))

    assert opened(conn, "trigger_run", run_id, by_reference=by_reference) == expected
    assert opened(conn, "scheduled_action", action_id, by_reference=by_reference) == expected


def test_an_action_with_a_delay_is_only_scheduled(conn):
    run_id = run_of(conn, {"type": "webhook", "delay": {"mode": "normal", "delaySeconds": 5}})

    assert opened(conn, "trigger_run", run_id) is None


@pytest.mark.parametrize("before", [None, 0, 1])
def test_once_there_are_receipts_the_claim_notes_nothing(conn, before):
    receipts = Jsonb([{"type": "webhook", "ok": False}])
    run_id = run_of(conn, {"type": "webhook"}, action_results=receipts, open_action=before)

    assert opened(conn, "trigger_run", run_id) == before


def test_what_may_have_been_sent_before_stays_noted(conn):
    run_id = run_of(conn, {"type": "webhook", "on_unknown": "fail"}, open_action=0)

    assert opened(conn, "trigger_run", run_id) == 0


def test_a_large_definition_is_not_read_for_it(conn):
    noise = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(20_000))
    run_id = run_of(conn, {"type": "webhook", "payload": noise})

    assert opened(conn, "trigger_run", run_id) is None
