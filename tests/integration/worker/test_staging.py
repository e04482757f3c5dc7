"""Staging is the success of an action: neither run nor workflow waits for a review."""

import pytest

from shared.queries.change_lists import ChangeFilter, list_changes
from shared.usecases.manage_tables import alter_table
from tests.builders_db import NOW, insert_table
from tests.integration.worker.runs import notify
from tests.integration.worker.waits import act, start

pytestmark = pytest.mark.usefixtures("nothing_broken")


@pytest.fixture
def table(conn):
    return insert_table(conn, approval="required")


def a_create(table, title="new"):
    return {"type": "create_record", "table_id": str(table.id), "data": {"title": title}}


def staged(conn, table):
    return list_changes(conn, table, ChangeFilter(), limit=9).items


def test_a_run_that_stages_is_done(bench, conn, table):
    update = {"type": "update_record", "data": {"title": "written"}}
    run_id = bench.insert(update, a_create(table), notify("after"), table=table)

    bench.execute()

    run = bench.run(run_id)
    create, change = staged(conn, table)
    assert run["status"] == "done"
    told = [receipt.get("staged_change_id") for receipt in run["action_results"]]
    assert told == [change.id, create.id, None]
    assert {(one.run_id, one.depth) for one in (create, change)} == {(run_id, 1)}
    assert bench.messages() == ["after"]


def test_a_step_that_stages_is_followed_by_the_next(bench, conn, table):
    start(conn, [act(a_create(table)), act(notify("next"))], tenant_id=table.tenant_id)

    for _ in range(2):
        bench.execute()

    (change,) = staged(conn, table)
    first, second = bench.actions()
    assert (first["status"], second["status"]) == ("done", "done")
    assert first["action_results"][0]["staged_change_id"] == change.id
    assert (change.run_id, change.scheduled_action_id) == (None, first["id"])
    assert bench.messages() == ["next"]


def test_a_delayed_action_stages_when_it_comes_due(bench, conn, table):
    update = {"type": "update_record", "data": {"title": "late"}, "delay": {"seconds": 60}}
    bench.insert(update, table=table)
    bench.execute()
    assert staged(conn, table) == []

    bench.hurry()
    bench.execute()

    (change,) = staged(conn, table)
    (action,) = bench.actions()
    assert (change.scheduled_action_id, change.proposed) == (action["id"], {"c1": "late"})


def test_a_run_is_bound_by_what_the_table_asks_for_when_it_executes(bench, conn, table):
    run_id = bench.insert(a_create(table), table=table)
    alter_table(conn, table.id, approval="none", now=NOW)

    bench.execute()

    assert staged(conn, table) == []
    assert bench.run(run_id)["action_results"][0]["record_id"]
