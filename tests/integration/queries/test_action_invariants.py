"""The statements that ask for the invariants of scheduled actions: each is heard when broken."""

from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from shared.queries import action_invariants, work_invariants
from shared.queries.action_invariants import ACTION_INVARIANTS
from shared.queries.invariants import INVARIANTS, list_violations
from shared.queries.work_invariants import WORK_INVARIANTS
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    NOW,
    insert_records,
    insert_row,
    insert_run,
    insert_table,
    insert_tenant,
)
from tests.builders_delayed import (
    insert_action,
    insert_click,
    insert_execution,
    insert_line_user,
    insert_link,
    insert_wait,
)

HOUR = timedelta(hours=1)
DONE = {"status": "done", "attempts": 1, "starts": 1}
SOON = {"announce_at": FAR_OFF, "next_attempt_at": FAR_OFF, "execute_at": FAR_OFF}


def _ended(kind, **result):
    return DONE | {"action_results": Jsonb([{"type": kind, "ok": True, **result}])}


@pytest.fixture(autouse=True)
def workspace(conn):
    """What a run scheduled, a wait that expired, and an execution in the branch that it took."""
    table = insert_table(conn)
    tenant = table.tenant_id
    row, made = insert_records(conn, table, [{}, {}])
    message = {"tenant_id": tenant, "chatroom_id": table.id, "message": "hello"}
    message_id = insert_row(conn, "chat_message", origin_key="k", created_at=NOW, **message)
    run = insert_run(conn, table, record_id=row.id, snapshot=Jsonb({}), status="failed")
    of_row = {"table_id": table.id, "record_id": row.id, "run_id": run}
    notified = insert_action(
        conn, tenant, action_type="notify", **of_row, **_ended("notify", message_id=message_id)
    )
    scheduled = Jsonb([{"type": "delay", "ok": True, "scheduled_action_id": notified}])
    conn.execute("UPDATE trigger_run SET action_results = %s", [scheduled])
    insert_action(conn, tenant, **_ended("create_record", record_id=made.id))
    insert_wait(conn, tenant, branch="expired", **_ended("on_expire"))
    _an_execution(conn, tenant)


def _an_execution(conn, tenant):
    execution = insert_execution(conn, tenant, line_user_id=insert_line_user(conn, tenant))
    contact = conn.execute("SELECT line_user_id FROM workflow_execution").fetchone()[0]
    step = execution | {"line_user_id": contact}
    place = {"execution_id": step["execution_id"], "workflow_node_path": "0"}
    link = insert_link(conn, tenant, name="offer", **place)
    insert_click(conn, link, clicked_at=LONG_AGO - HOUR, unlocked_at=LONG_AGO - HOUR)
    clicked = {"branch": "clicked", "tracking_link_id": link}
    node = _ended("wait_for_tracking") | {"action_type": "wait_for_tracking"}
    insert_wait(conn, tenant, **step | node | clicked)
    # An action may wait for the link of a node that stands before it.
    insert_wait(conn, tenant, **step | SOON | clicked | {"workflow_node_path": "0.clicked.0"})


def _violations(conn):
    return list_violations(conn, settled_before=NOW - timedelta(minutes=5), limit=10)


def test_a_sound_database_shows_nothing(conn):
    assert _violations(conn) == []


_CHANGE = "UPDATE scheduled_action SET CHANGE WHERE action_results -> 0 ->> 'type' = 'KIND'"


def _to(kind, change):
    """A change to the action that did this."""
    return _CHANGE.replace("CHANGE", change).replace("KIND", kind)


def _to_notified(change):
    return _to("notify", change)


def _to_created(change):
    return _to("create_record", change)


# One for each statement, by its name.
PLANTED = {
    "_LEASE_FORGOTTEN": _to_notified(
        "status = 'processing', worker_id = 1, finished_at = NULL,"
        " leased_until = '2026-07-25 08:54Z'"
    ),
    "_PENDING_FORGOTTEN": (
        "UPDATE scheduled_action SET announce_at = '2026-07-25 08:54Z' WHERE status = 'pending'"
    ),
    "_CLICK_FORGOTTEN": "UPDATE tracking_click SET unlocked_at = NULL",
    "_BEGUN_AGAIN": _to_notified("open_action = 0"),
    "_RECEIPT_WITHOUT_MESSAGE": "UPDATE chat_message SET id = DEFAULT",
    "_RECEIPT_WITHOUT_RECORD": "UPDATE record SET id = DEFAULT",
    "_SCHEDULED_FOR_ANOTHER": _to_notified("run_id = NULL"),
    "_DONE_WITHOUT_RECEIPT": _to_created("action_results = '[]'"),
    "_BUDGET_OVERDRAWN": _to_created("attempts = 5, starts = 5"),
    "_ENDED_UNDECIDED": "UPDATE scheduled_action SET branch = NULL",
    "_CLICK_OVERRULED": "UPDATE scheduled_action SET branch = 'expired' WHERE branch = 'clicked'",
    "_OTHER_BRANCH_TAKEN": (
        "UPDATE scheduled_action SET workflow_node_path = '0.not_clicked.0'"
        " WHERE workflow_node_path = '0.clicked.0'"
    ),
    "_SUBJECT_OF_ANOTHER_TABLE": """
        WITH other AS (
            INSERT INTO custom_table (
                tenant_id, name, columns, columns_made, created_at, updated_at
            )
            SELECT tenant_id, 'other', '[]', 0, '2020-01-01Z', '2020-01-01Z' FROM custom_table
            RETURNING id
        )
        UPDATE record SET table_id = other.id FROM other
    """,
    "_STEP_OF_ANOTHER_WORKFLOW": """
        UPDATE tracking_link SET workflow_node_path = '1' WHERE execution_id IS NOT NULL
    """,
}
ALSO_PLANTED = [
    ("_BEGUN_AGAIN", _to_created("open_action = 0")),
    (
        "_DONE_WITHOUT_RECEIPT",
        _to_created("action_results = jsonb_set(action_results, '{0,ok}', 'false')"),
    ),
    ("_BUDGET_OVERDRAWN", _to_created("attempts = 2")),
    ("_BUDGET_OVERDRAWN", _to_created("worker_losses = 5")),
    (
        "_OTHER_BRANCH_TAKEN",
        "UPDATE scheduled_action SET branch = 'expired' WHERE branch = 'clicked'",
    ),
    (
        "_STEP_OF_ANOTHER_WORKFLOW",
        "UPDATE scheduled_action SET line_user_id = NULL WHERE execution_id IS NOT NULL",
    ),
    (
        "_STEP_OF_ANOTHER_WORKFLOW",
        "UPDATE scheduled_action SET workflow_version = 2 WHERE execution_id IS NOT NULL",
    ),
]


def _asked(name):
    return next(one for one in INVARIANTS if one.statement == _statement(name))


def _statement(name):
    own = getattr(action_invariants, name, None)
    return own or getattr(work_invariants, name)["scheduled_action"]


@pytest.mark.parametrize(("name", "plant"), [*PLANTED.items(), *ALSO_PLANTED])
def test_a_planted_violation_is_found_by_its_statement(conn, name, plant):
    conn.execute(plant)

    _assert_found(conn, name)


def _assert_found(conn, name):
    asked = _asked(name)
    asked_for_all = {"settled_before": NOW - timedelta(minutes=5), "limit": 10, "executions": 4}
    parameters = {**asked.parameters, **asked_for_all}
    assert conn.execute(asked.statement, parameters).fetchall()
    assert asked.number in {violation.invariant for violation in _violations(conn)}


@pytest.mark.parametrize("cause", ["run_id", "event_id", "rule_id"])
def test_a_cause_of_another_tenant_is_found(conn, cause):
    theirs = insert_tenant(conn)
    times = {"created_at": LONG_AGO, "updated_at": LONG_AGO}
    ids = {
        "run_id": lambda: insert_run(conn),
        "event_id": lambda: insert_row(
            conn, "event", tenant_id=theirs, name="bought", created_at=LONG_AGO
        ),
        "rule_id": lambda: insert_row(
            conn,
            "trigger_rule",
            tenant_id=theirs,
            name="r",
            event="bought",
            actions=Jsonb([]),
            **times,
        ),
    }
    insert_action(conn, **{cause: ids[cause]()}, **SOON)

    _assert_found(conn, "_CAUSE_OF_ANOTHER_TENANT")


def test_every_statement_has_been_planted_against():
    of_actions = [one for one in WORK_INVARIANTS if "FROM scheduled_action" in one.statement]
    asked = {invariant.statement for invariant in (*of_actions, *ACTION_INVARIANTS)}
    planted = {_statement(name) for name in PLANTED}

    assert asked - planted == {action_invariants._CAUSE_OF_ANOTHER_TENANT}


def test_a_click_that_was_tried_after_the_deadline_overrules_nothing(conn):
    wait = insert_wait(conn, branch="expired", clicked_at=LONG_AGO - HOUR, **_ended("on_expire"))
    conn.execute(
        "UPDATE tracking_click SET unlocked_at = %s FROM scheduled_action"
        " WHERE link_id = tracking_link_id AND id = %s",
        [LONG_AGO + HOUR, wait],
    )

    assert _violations(conn) == []
