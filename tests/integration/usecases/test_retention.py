from datetime import timedelta

import pytest
from psycopg.sql import SQL, Identifier

from shared.db.clock import server_now
from shared.queries.idempotency import take_key
from shared.queries.workers import hold_liveness
from shared.usecases.retention import delete_old
from tests.builders_db import (
    LONG_AGO,
    insert_row,
    insert_run,
    insert_runs,
    insert_state,
    insert_table,
    insert_tenant,
    insert_worker,
    row_of,
)
from tests.builders_delayed import insert_action, insert_execution, insert_link
from tests.builders_staged import insert_change


@pytest.fixture
def now(conn):
    return server_now(conn)


def _delete_all(conn, now):
    while delete_old(conn, now=now, run_retention_days=90):
        pass


def _ids(conn, relation):
    statement = SQL("SELECT id FROM {}").format(Identifier(relation))
    return {id for (id,) in conn.execute(statement)}


def test_ended_runs_go_when_they_are_old(conn, now):
    table = insert_table(conn)
    old = insert_runs(conn, table, count=2, status="done", finished_at=now - timedelta(days=91))
    old += insert_runs(conn, table, count=1, status="failed", finished_at=LONG_AGO)
    young = insert_run(conn, table, status="done", finished_at=now - timedelta(days=89))
    waiting = insert_run(conn, table, status="pending")
    held = insert_run(conn, table, status="running")

    _delete_all(conn, now)

    assert _ids(conn, "trigger_run") == {young, waiting, held}


def test_staged_changes_go_when_they_ended_long_ago_and_their_run_is_gone(conn, now):
    table = insert_table(conn)
    old, young = LONG_AGO, now - timedelta(days=89)
    kept_run = insert_run(conn, table, status="done", finished_at=young)
    old_run = insert_run(conn, table, status="done", finished_at=old)
    for status in ("rejected", "applied", "failed"):
        insert_change(conn, table, status=status, run_id=old_run)
    kept = {
        insert_change(conn, table, run_id=old_run),
        insert_change(conn, table, status="approved", run_id=old_run),
        insert_change(conn, table, status="rejected", run_id=old_run, finished_at=young),
        insert_change(conn, table, status="applied", run_id=kept_run),
    }

    _delete_all(conn, now)

    assert _ids(conn, "staged_change") == kept


def test_many_old_runs_go_in_several_batches(conn, now):
    insert_runs(conn, insert_table(conn), count=1100, status="done")

    assert delete_old(conn, now=now, run_retention_days=90)
    assert len(_ids(conn, "trigger_run")) == 600
    assert delete_old(conn, now=now, run_retention_days=90)
    assert not delete_old(conn, now=now, run_retention_days=90)
    assert _ids(conn, "trigger_run") == set()


def test_events_go_when_they_are_old_and_what_they_scheduled_stays(conn, now):
    tenant_id = insert_tenant(conn)
    old, young = (
        insert_row(
            conn, "event", tenant_id=tenant_id, name="e", created_at=now - timedelta(days=days)
        )
        for days in (91, 89)
    )
    waiting = insert_action(conn, tenant_id, event_id=old)

    _delete_all(conn, now)

    assert _ids(conn, "event") == {young}
    assert _ids(conn, "scheduled_action") == {waiting}


def test_executions_go_when_they_are_old_and_over_and_their_links_stay(conn, now):
    tenant_id = insert_tenant(conn)
    over = insert_execution(conn, tenant_id)
    empty = insert_execution(conn, tenant_id)
    waiting = insert_execution(conn, tenant_id)
    young = insert_execution(conn, tenant_id, started_at=now - timedelta(days=89))
    insert_action(conn, tenant_id, status="failed", **over)
    insert_action(conn, tenant_id, **waiting)
    place = {"execution_id": over["execution_id"], "workflow_node_path": "1"}
    link_id = insert_link(conn, tenant_id, **place, name="offer")

    _delete_all(conn, now)

    left = {waiting["execution_id"], young["execution_id"]}
    assert _ids(conn, "workflow_execution") == left
    assert empty["execution_id"] not in left
    link = row_of(conn, "tracking_link", link_id)
    assert (link["execution_id"], link["workflow_node_path"]) == (None, None)


def test_ended_scheduled_actions_go_when_they_are_old(conn, now):
    tenant = insert_tenant(conn)
    execution = insert_execution(conn, tenant)
    long_ended = {"status": "done", "finished_at": now - timedelta(days=91)}
    insert_action(conn, tenant, **long_ended)
    insert_action(conn, tenant, status="cancelled")
    young = insert_action(conn, tenant, status="failed", finished_at=now - timedelta(days=89))
    waiting = insert_action(conn, tenant)
    step = insert_action(conn, tenant, **long_ended, **execution)
    goes_on = insert_action(conn, tenant, **execution | {"workflow_node_path": "1"})

    _delete_all(conn, now)

    assert _ids(conn, "scheduled_action") == {young, waiting, step, goes_on}


def test_the_ledger_keeps_what_was_consumed(conn, now):
    table = insert_table(conn)
    state = insert_state(conn, table)
    conn.execute(
        "INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)"
        " VALUES (%s, 1, 'then', true, %s)",
        [state.ref, LONG_AGO],
    )
    insert_run(conn, table, status="done", trigger_ref=state.ref, record_id=1, identity="then")

    _delete_all(conn, now)

    assert conn.execute("SELECT identity FROM occurrence").fetchall() == [("then",)]


def test_workers_go_when_they_are_gone_and_hold_nothing(conn, other_conn, now):
    insert_worker(conn)
    holding, living = insert_worker(conn), insert_worker(conn)
    young = insert_worker(conn, started_at=now - timedelta(days=6))
    insert_run(conn, status="running", worker_id=holding)
    hold_liveness(other_conn, living)

    _delete_all(conn, now)

    assert _ids(conn, "worker") == {holding, living, young}


def test_remembered_answers_go_after_a_day(conn, now):
    tenant_id = insert_tenant(conn)
    for key, age in (("old", timedelta(hours=25)), ("young", timedelta(hours=23))):
        take_key(conn, tenant_id=tenant_id, key=key, request_hash=bytes(32), now=now - age)

    _delete_all(conn, now)

    assert conn.execute("SELECT key FROM idempotent_answer").fetchall() == [("young",)]
