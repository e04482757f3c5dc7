"""The witness of a chaos run, on a database in which it is known what happened."""

import pytest

from services.cli.embedded_postgres import ADMIN
from shared.db.connection import connect
from shared.domain.runs import idempotency_key
from tests.builders_db import (
    LONG_AGO,
    delete_all,
    insert_row,
    insert_run,
    insert_table,
    trigger_id,
    update_all,
)
from tests.builders_delayed import insert_action
from tests.builders_staged import BY_STATUS, insert_change
from tests.chaos import witness
from tests.chaos.checker import find_breaches
from tests.chaos.evidence import Effect, Evidence
from tests.chaos.moves import INSTALL, list_moves


@pytest.fixture
def admin(postgres_process, database_url):
    """A superuser's session on the fresh database, in which moves are noted from now on."""
    url = postgres_process.server.url(database_url.rpartition("/")[2], role=ADMIN)
    with connect(url, application_name="chaos") as session:
        session.execute(INSTALL)
        yield session


def test_moves_that_are_drawn_are_noted_and_no_breach(admin, conn):
    insert_run(conn)
    nothing = dict.fromkeys(("announce_at", "next_attempt_at"))
    held = {**nothing, "leased_until": "2030-01-01", "worker_id": 7, "attempts": 1, "starts": 1}
    ended = {"leased_until": None, "worker_id": None, "finished_at": "2026-01-01"}

    update_all(conn, "trigger_run", status="running", **held)
    update_all(conn, "trigger_run", status="done", **ended)
    delete_all(conn, "trigger_run")

    moves = list_moves(admin)
    assert [(one.old, one.new) for one in moves] == [
        (None, "pending"),
        ("pending", "running"),
        ("running", "done"),
        ("done", None),
    ]
    assert (moves[1].starts, moves[1].worker_id, moves[1].is_start) == (1, 7, True)
    assert moves[1].due_at is not None
    assert find_breaches(Evidence(moves=moves)) == []


@pytest.mark.parametrize(
    ("table", "insert", "status"),
    [
        ("trigger_run", insert_run, "failed"),
        ("scheduled_action", insert_action, "done"),
        ("staged_change", insert_change, "rejected"),
    ],
)
def test_a_row_that_comes_as_no_drawing_has_it_is_a_breach(admin, conn, table, insert, status):
    insert(conn, status=status)

    (breach,) = find_breaches(Evidence(moves=list_moves(admin)))
    assert breach.kind == "illegal move"
    assert f"None -> {status}" in breach.found


def test_a_move_that_is_not_drawn_is_a_breach(admin, conn):
    insert_change(conn)
    update_all(conn, "staged_change", status="failed", **BY_STATUS["failed"])

    (breach,) = find_breaches(Evidence(moves=list_moves(admin)))
    assert breach.kind == "illegal move"
    assert "pending -> failed" in breach.found


def test_messages_and_records_tell_of_whom_they_are(admin, conn):
    columns = '[{"id": "c1", "name": "tag", "type": "text"}]'
    table = insert_table(conn)
    conn.execute("UPDATE custom_table SET name = 'made', columns = %s", [columns])
    row = {"tenant_id": table.tenant_id, "created_at": "2026-01-01"}
    told = {"chatroom_id": table.id, "message": "branch wait-000001 clicked", "origin_key": "k"}
    insert_row(conn, "chat_message", **row, **told)
    insert_row(
        conn,
        "record",
        table_id=table.id,
        data='{"c1": "date-000001"}',
        updated_at="2026-01-01",
        **row,
    )

    at = 1767225600.0
    assert witness.effects(admin) == [
        Effect(sort="branch", tag="wait-000001", at=at, told="clicked"),
        Effect(sort="made", tag="date-000001", at=at),
    ]


def test_what_has_not_ended_is_told(admin, conn):
    run_id, action_id = insert_run(conn), insert_action(conn, status="processing")
    change_id = insert_change(conn)
    insert_run(conn, status="done")
    insert_action(conn, execute_at="2030-01-01")

    assert witness.open_rows(admin) == [
        f"trigger_run {run_id}",
        f"scheduled_action {action_id}",
        f"staged_change {change_id}",
    ]


@pytest.mark.parametrize(
    ("kind", "written_at"), [("record_created", LONG_AGO), ("date_column_reached", None)]
)
def test_a_call_is_that_of_the_run_which_makes_its_key(admin, conn, kind, written_at):
    table = insert_table(conn)
    run_id = insert_run(conn, table, kind=kind, record_id=7, identity="i", scheduled_for=LONG_AGO)
    key = idempotency_key(
        tenant_id=table.tenant_id,
        table_id=table.id,
        trigger_id=trigger_id(1),
        record_id=7,
        identity="i",
        written_at=written_at,
        position=1,
    )

    assert witness.list_rows(admin)[key] == ("trigger_run", run_id)


def test_invariants_are_asked_for_as_doctor_asks_for_them(admin, conn):
    assert witness.violations(admin) == []
    insert_action(conn, status="done")

    (found,) = witness.violations(admin)
    assert found.startswith("I11 ")
