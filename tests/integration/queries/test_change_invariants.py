"""The statements that ask for the invariants of staged changes: each is heard when broken."""

from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from shared.queries import change_invariants
from shared.queries.change_invariants import CHANGE_INVARIANTS
from shared.queries.invariants import list_violations
from tests.builders_db import LONG_AGO, NOW, insert_records, insert_run, insert_table
from tests.builders_delayed import insert_action
from tests.builders_staged import insert_change, insert_delete, insert_update


@pytest.fixture(autouse=True)
def workspace(conn):
    """What a run and a scheduled action have staged, in every status."""
    table = insert_table(conn, approval="required")
    first, second, third = insert_records(conn, table, [{}, {}, {}])
    failed = {"status": "failed", "attempts": 1, "starts": 1}
    run = insert_run(conn, table, record_id=first.id, snapshot=Jsonb({}), **failed)
    of_run = {"run_id": run}
    changes = [
        insert_change(conn, table, **of_run),
        insert_change(conn, table, status="rejected", **of_run),
        insert_update(conn, table, first, status="failed", **of_run),
        insert_update(conn, table, first, status="applied", **of_run),
        insert_update(conn, table, third, status="approved", announce_at=NOW, **of_run),
        insert_change(conn, table, status="applied", **of_run),
    ]
    conn.execute("UPDATE record SET version = 2 WHERE id = %s", [first.id])
    conn.execute(
        "UPDATE trigger_run SET action_results = %s",
        [Jsonb([_receipt("create_record", change) for change in changes])],
    )
    action = insert_action(conn, table.tenant_id, status="done", attempts=1, starts=1)
    deleted = insert_delete(
        conn, table, second, status="applied", run_id=None, scheduled_action_id=action
    )
    conn.execute(
        "UPDATE scheduled_action SET action_results = %s",
        [Jsonb([_receipt("delete_record", deleted)])],
    )
    conn.execute("UPDATE record SET version = 2, deleted_at = %s WHERE id = %s", [NOW, second.id])


def _receipt(kind, change):
    return {"type": kind, "ok": True, "staged": True, "staged_change_id": change}


def _violations(conn):
    return list_violations(conn, settled_before=NOW - timedelta(minutes=5), limit=10)


def test_a_sound_database_shows_nothing(conn):
    assert _violations(conn) == []


# One or more for each statement, by its name.
PLANTED = [
    (
        "_APPROVED_FORGOTTEN",
        "UPDATE staged_change SET announce_at = '2026-07-25 08:54Z' WHERE status = 'approved'",
    ),
    ("_RECEIPT_WITHOUT_CHANGE", "DELETE FROM staged_change WHERE status = 'rejected'"),
    ("_RECEIPT_WITHOUT_CHANGE", "DELETE FROM staged_change WHERE operation = 'delete'"),
    ("_RECEIPT_WITHOUT_CHANGE", "UPDATE staged_change SET run_id = 0 WHERE status = 'pending'"),
    ("_APPLIED_WITHOUT_EFFECT", "UPDATE record SET version = 1"),
    ("_APPLIED_WITHOUT_EFFECT", "UPDATE record SET origin_key = NULL"),
    ("_APPLIED_WITHOUT_EFFECT", "DELETE FROM record WHERE origin_key IS NOT NULL"),
    (
        "_MADE_UNAPPLIED",
        "UPDATE staged_change SET status = 'rejected', record_id = NULL"
        " WHERE status = 'applied' AND operation = 'create'",
    ),
    (
        "_BASE_APPLIED_TWICE",
        "UPDATE staged_change SET status = 'applied', error = NULL WHERE status = 'failed'",
    ),
    (
        "_RECORD_OF_ANOTHER_TABLE",
        """
        WITH other AS (
            INSERT INTO custom_table (
                tenant_id, name, columns, columns_made, created_at, updated_at
            )
            SELECT tenant_id, 'other', '[]', 0, '2020-01-01Z', '2020-01-01Z' FROM custom_table
            RETURNING id
        )
        UPDATE record SET table_id = other.id FROM other WHERE record.origin_key IS NULL
        """,
    ),
]


@pytest.mark.parametrize(("name", "plant"), PLANTED)
def test_a_planted_violation_is_found(conn, name, plant):
    conn.execute(plant)

    statement = getattr(change_invariants, name)
    statements = statement.values() if isinstance(statement, dict) else [statement]
    asked = {"settled_before": NOW - timedelta(minutes=5), "limit": 10}
    found = [row for one in statements for row in conn.execute(one, asked)]
    assert found
    assert _violations(conn) != []


def test_every_invariant_that_is_asked_has_been_planted():
    planted = set()
    for name, _ in PLANTED:
        statement = getattr(change_invariants, name)
        planted |= set(statement.values() if isinstance(statement, dict) else [statement])

    assert {invariant.statement for invariant in CHANGE_INVARIANTS} == planted


@pytest.mark.parametrize(
    ("number", "constraint"),
    [
        ("I8", "approved_can_be_found"),
        ("I10", "a_change_is_staged_once"),
        ("I12", "failed_has_a_reason"),
        ("I16", "staged_change_tenant_id_table_id_fkey"),
    ],
)
def test_a_constraint_that_is_not_in_force_is_found(conn, number, constraint):
    conn.execute(f"ALTER TABLE staged_change DROP CONSTRAINT {constraint}")

    found = list_violations(conn, settled_before=LONG_AGO, limit=10)

    assert [one.invariant for one in found] == [number]
