"""From a trigger on a table that asks for approval to the change that somebody approved."""


def test_what_an_action_proposes_is_written_when_a_moderator_approves_it(running, workspace):
    orders = workspace.make_table("orders", title="text", state="text")
    path = f"/tenant/custom-tables/tables/{orders}"
    workspace.call("PATCH", path, {"approval": "required"})
    actions = [
        {"type": "update_record", "data": {"state": "seen"}},
        {
            "type": "create_record",
            "table_id": orders,
            "data": {"title": "copy of $row.title", "state": "copy"},
        },
    ]
    when = [{"column": "state", "op": "neq", "value": "copy"}]
    workspace.set_triggers(orders, {"on": "record_created", "when": when, "actions": actions})

    workspace.make_record(orders, title="lamp", state="new")
    running.wait(lambda: len(running.told("runs", "--status", "done")) == 1)
    proposed = running.told("changes", "--status", "pending")

    assert workspace.records(orders) == [{"title": "lamp", "state": "new"}]
    [run] = running.told("runs")
    assert [receipt["staged_change_id"] for receipt in run["action_results"]] == sorted(
        change["id"] for change in proposed
    )
    create, update = proposed
    assert (update["base"], update["proposed"]) == ({"state": "new"}, {"state": "seen"})
    running.told("changes", "approve", create["id"], update["id"], "--reason", "right")

    running.wait(lambda: len(running.told("changes", "--status", "applied")) == 2)
    assert sorted(record["title"] for record in workspace.records(orders)) == [
        "copy of lamp",
        "lamp",
    ]
    assert workspace.records(orders)[0] == {"title": "lamp", "state": "seen"}
    assert running.verify()["ok"]
