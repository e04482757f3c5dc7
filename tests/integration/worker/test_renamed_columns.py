"""What was frozen before a column was renamed goes on working."""

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.queries.custom_tables import find_table
from shared.usecases.manage_tables import alter_table
from tests.builders_db import insert_table
from tests.integration.worker.runs import notify
from tests.integration.worker.waits import act, delay, start

pytestmark = pytest.mark.usefixtures("nothing_broken")


@pytest.fixture
def table(conn):
    return insert_table(conn)


def rename(conn, table, **names):
    present = find_table(conn, table.id)
    raw = [{**one.to_json(), "name": names.get(one.name, one.name)} for one in present.columns]
    alter_table(conn, table.id, raw_columns=raw, now=server_now(conn))


def creating(table, **data):
    return {"type": "create_record", "table_id": str(table.id), "data": data}


def cells(conn, table):
    rows = conn.execute("SELECT data FROM record WHERE table_id = %s ORDER BY id", [table.id])
    return [data for (data,) in rows]


def test_a_pending_run_on_its_own_row_and_its_own_table(bench, conn, table):
    update = {"type": "update_record", "data": {"title": "${row.title}!", "due": "2030-01-01"}}
    run_id = bench.insert(
        notify("$row.title"), update, creating(table, due="$row.title"), table=table
    )
    rename(conn, table, title="due", due="title")

    bench.execute()

    assert bench.run(run_id)["status"] == "done"
    assert bench.messages() == ["broken lamp"]
    assert cells(conn, table) == [{"c1": "broken lamp!", "c2": "2030-01-01"}, {"c2": "broken lamp"}]


@pytest.mark.parametrize(("title", "messages"), [("broken lamp", ["late"]), ("mended", [])])
def test_conditions_that_are_judged_again_after_a_rename(bench, conn, table, title, messages):
    when = [{"column": "title", "op": "eq", "value": "broken lamp"}]
    late = notify("late") | {"delay": {"seconds": 60, "reEvaluateConditions": True}}
    bench.insert(late, table=table, when=when)
    bench.execute()
    rename(conn, table, title="subject")
    conn.execute("UPDATE record SET data = %s", [Jsonb({"c1": title})])

    bench.hurry()
    bench.execute()

    assert bench.messages() == messages


def test_what_a_delay_has_recorded_before_a_rename(bench, conn, table):
    update = {"type": "update_record", "data": {"title": "${row.title}!"}, "delay": {"seconds": 60}}
    bench.insert(update, table=table)
    bench.execute()
    rename(conn, table, title="subject")

    bench.hurry()
    bench.execute()

    assert cells(conn, table) == [{"c1": "broken lamp!"}]


def test_a_run_and_a_scheduled_action_that_create_records_in_another_table(bench, conn, table):
    other = insert_table(conn, tenant_id=table.tenant_id)
    run_id = bench.insert(creating(table, title="of a run"), table=other)
    action_id = bench.wait(creating(table, title="of an event"), tenant_id=table.tenant_id)
    rename(conn, table, title="subject")

    bench.execute()

    assert bench.run(run_id)["status"] == "done"
    assert bench.action(action_id)["status"] == "done"
    assert cells(conn, table) == [{"c1": "of a run"}, {"c1": "of an event"}]


def test_an_execution_finishes_on_the_version_it_was_started_in(bench, conn, table):
    nodes = [delay(), act(creating(table, title="$event.x"))]
    workflow, _ = start(conn, nodes, context={"x": "late"}, tenant_id=table.tenant_id)
    bench.execute()
    rename(conn, table, title="subject")

    for _ in range(3):
        bench.hurry()
        bench.execute()

    assert cells(conn, table) == [{"c1": "late"}]
    versions = conn.execute(
        "SELECT version, nodes -> 1 -> 'action' -> 'data' FROM workflow_version"
        " WHERE workflow_id = %s ORDER BY version",
        [workflow.id],
    ).fetchall()
    assert versions == [(1, {"title": "$event.x"}), (2, {"subject": "$event.x"})]
