"""Commands about scheduled actions, as the holder of a moderator's token."""

import pytest
from psycopg.types.json import Jsonb

from tests.builders_db import FAR_OFF, LONG_AGO, insert_records, insert_table
from tests.builders_delayed import (
    NOTIFY,
    insert_action,
    insert_execution,
    insert_line_user,
    insert_wait,
)

SOON = {"execute_at": FAR_OFF, "announce_at": FAR_OFF, "next_attempt_at": FAR_OFF}
RECEIPT = {"type": "notify", "ok": True, "attempts": 1}


def ids(actions):
    return [action["id"] for action in actions]


def test_actions_are_listed_the_newest_first(on_api, conn, tenant):
    made = [insert_action(conn, tenant.id) for _ in range(3)]
    insert_action(conn)

    assert ids(on_api.told("actions")) == made[::-1]
    assert ids(on_api.told("actions", "list", "--limit", 2)) == made[:0:-1]


def test_actions_are_filtered(on_api, conn, tenant):
    table = insert_table(conn, tenant_id=tenant.id)
    [record] = insert_records(conn, table, [{}])
    contact = insert_line_user(conn, tenant.id)
    execution = insert_execution(conn, tenant.id)
    of_contact = insert_action(conn, tenant.id, status="done", line_user_id=contact)
    of_record = insert_action(conn, tenant.id, table_id=table.id, record_id=record.id)
    step = insert_action(conn, tenant.id, **SOON, **execution)

    assert ids(on_api.told("actions", "--status", "done")) == [of_contact]
    assert ids(on_api.told("actions", "--contact", contact)) == [of_contact]
    of_table = ("actions", "--table", table.id)
    assert ids(on_api.told(*of_table)) == [of_record]
    assert ids(on_api.told("actions", "--table", table.name)) == [of_record]
    assert ids(on_api.told(*of_table, "--record", record.id)) == [of_record]
    assert ids(on_api.told("actions", "--workflow", execution["workflow_id"])) == [step]
    [name] = conn.execute("SELECT name FROM workflow").fetchone()
    assert ids(on_api.told("actions", "--workflow", name)) == [step]
    unknown = on_api.run("actions", "--workflow", "other")
    assert (unknown.exit_code, "there is no workflow 'other'" in unknown.output) == (1, True)
    assert ids(on_api.told("actions", "--execution", execution["execution_id"])) == [step]
    assert ids(on_api.told("actions", "--from", "2026-01-01T00:00:00Z")) == [step]
    assert ids(on_api.told("actions", "--to", "2026-01-01T00:00:00Z")) == [of_contact, of_record]


def test_an_action_is_shown(on_api, conn, tenant):
    action_id = insert_action(conn, tenant.id, status="failed")

    assert on_api.told("actions", "show", action_id)["action_config"] == NOTIFY
    assert "it failed" in on_api.run("actions", "show", action_id).stdout


def test_people_get_a_table(on_api, conn, tenant):
    contact = insert_line_user(conn, tenant.id)
    done = {"status": "done", "action_results": Jsonb([RECEIPT])}
    action_id = insert_action(conn, tenant.id, line_user_id=contact, **done)
    wait = insert_wait(conn, tenant.id, expires_at=LONG_AGO)

    heading, first, second = on_api.run("actions").stdout.splitlines()

    assert heading.split()[:3] == ["action", "does", "on"]
    assert first.split()[:3] == [str(wait), "notify", "-"]
    assert "a click" in first
    assert second.split()[:4] == [str(action_id), "notify", "contact", str(contact)]
    assert second.rstrip().endswith("notify ok")
    assert on_api.run("actions", "--status", "failed").stdout == "no scheduled actions\n"


def test_what_failed_for_now_tells_why_and_when_it_is_tried_again(on_api, conn, tenant):
    receipt = RECEIPT | {"ok": False, "detail": "answered 503"}
    again = {**SOON, "attempts": 1, "action_results": Jsonb([receipt])}
    insert_action(conn, tenant.id, **again)

    [_, line] = on_api.run("actions").stdout.splitlines()

    assert f"a retry, {FAR_OFF:%Y-%m-%dT%H:%M:%S}Z" in line
    assert line.rstrip().endswith("notify failed: answered 503")


def test_actions_are_cancelled_retried_and_run_now(on_api, conn, tenant):
    pending, later = (insert_action(conn, tenant.id, **SOON) for _ in range(2))
    failed = insert_action(conn, tenant.id, status="failed")
    wait = insert_wait(conn, tenant.id, expires_at=FAR_OFF)

    [cancelled] = on_api.told("actions", "cancel", pending)
    [retried] = on_api.told("actions", "retry", failed)
    [moved] = on_api.told("actions", "run-now", later)
    [clicked] = on_api.told("actions", "run-now", wait, "--branch", "clicked")

    assert (cancelled["status"], retried["status"], moved["status"]) == (
        "cancelled",
        "pending",
        "pending",
    )
    assert moved["execute_at"] < "2100"
    assert clicked["branch"] == "clicked"


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("cancel", "is done; only pending ones can be cancelled"),
        ("run-now", "is done; only pending ones can be run now"),
        ("retry", "is done; only failed ones can be retried"),
    ],
)
def test_what_the_api_refuses_is_told_in_its_words(on_api, conn, tenant, verb, message):
    action_id = insert_action(conn, tenant.id, status="done")

    done = on_api.run("actions", verb, action_id)

    assert (done.exit_code, done.stderr) == (1, f"Error: scheduled action {action_id} {message}\n")


def test_a_wait_needs_a_branch_to_be_run_now(on_api, conn, tenant):
    done = on_api.run("actions", "run-now", insert_wait(conn, tenant.id))

    assert (done.exit_code, done.stderr) == (
        1,
        "Error: this is a wait: say which branch it takes, clicked or expired\n",
    )


def test_a_record_is_one_of_a_table(on_api):
    done = on_api.run("actions", "--record", 1)

    assert done.exit_code == 2
    assert done.stderr.endswith("Error: --record goes with --table\n")
