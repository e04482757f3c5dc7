"""From a saved trigger to a receipt, for every kind of trigger."""

import json
from collections import Counter
from datetime import timedelta
from uuid import uuid4

from shared.db.clock import server_now
from tests.e2e.installation import notify, scheduled

# Far enough apart that each fires once while a test runs.
_HOURLY = {"type": "interval", "every_seconds": 3600}
_EVERY_MINUTE = {"type": "cron", "expression": "* * * * *"}


def test_every_kind_of_trigger_fires_and_leaves_a_receipt(running, workspace, conn, make_cron_due):
    chatroom = str(uuid4())
    table = workspace.make_table("案件", 案件名稱="text", 到期時間="datetime", 狀態="text")

    def tell(text):
        return notify(text, chatroom=chatroom)

    workspace.set_triggers(
        table,
        scheduled(
            {"type": "date_column_reached", "column": "到期時間", "offset_minutes": -1440},
            tell("到期 $row.案件名稱"),
            when=[{"column": "狀態", "op": "neq", "value": "完成"}],
        ),
        scheduled(_HOURLY, tell("interval")),
        scheduled({"type": "daily", "at": "00:00"}, tell("daily")),
        scheduled(_EVERY_MINUTE, tell("cron")),
        {"on": "record_created", "actions": [tell("created $row.案件名稱")]},
        {
            "on": "record_updated",
            "when": [{"column": "狀態", "op": "changed"}],
            "actions": [tell("updated ${row.狀態}")],
        },
        {"on": "record_deleted", "actions": [tell("deleted $row.案件名稱")]},
    )
    make_cron_due()
    tomorrow = f"{server_now(conn) + timedelta(hours=23):%Y-%m-%d %H:%M}"
    due = workspace.make_record(table, 案件名稱="甲", 到期時間=tomorrow, 狀態="待處理")
    workspace.make_record(table, 案件名稱="乙", 到期時間=tomorrow, 狀態="完成")
    running.wait(lambda: "到期 甲" in workspace.messages(chatroom))
    records = f"/tenant/custom-tables/tables/{table}/records"
    workspace.call("PATCH", f"{records}/{due}", {"data": {"狀態": "完成"}})
    workspace.call("DELETE", f"{records}/{due}")

    running.wait(lambda: len(workspace.messages(chatroom)) >= 8)
    runs = running.told("runs", "案件")

    assert set(workspace.messages(chatroom)) == {
        *("到期 甲", "interval", "daily", "cron"),
        *("created 甲", "created 乙", "updated 完成", "deleted 甲"),
    }
    kinds = Counter(run["kind"] for run in runs)
    # A minute, or a day, may begin while we look.
    assert kinds.pop("cron") in (1, 2)
    assert kinds.pop("daily") in (1, 2)
    assert kinds == {
        "date_column_reached": 1,
        "interval": 1,
        "record_created": 2,
        "record_updated": 1,
        "record_deleted": 1,
    }
    done = [run for run in runs if run["status"] == "done"]
    assert len(done) >= 8
    assert {run["action_results"][0]["ok"] for run in done} == {True}
    assert running.verify()["ok"]


def test_a_run_executes_its_actions_in_order(running, workspace, receiver):
    chatroom = str(uuid4())
    orders = workspace.make_table("orders", title="text", state="text")
    journal = workspace.make_table("journal", entry="text")
    command = {
        "name": "greet",
        "url": f"{receiver.url}/command",
        "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}},
    }
    workspace.call("POST", "/v1/commands", command)
    actions = [
        notify("$row.title", chatroom=chatroom),
        {"type": "webhook", "url": f"{receiver.url}/webhook"},
        {"type": "api_call", "method": "PUT", "url": f"{receiver.url}/api", "body": "$row"},
        {"type": "invoke_command", "command": "greet", "inputs": {"to": "$row.title"}},
        {"type": "create_record", "table_id": journal, "data": {"entry": "$row.title came"}},
        {"type": "update_record", "target": "$row", "data": {"state": "told"}},
        {"type": "delete_record", "target": "$row"},
    ]
    workspace.set_triggers(orders, {"on": "record_created", "actions": actions})

    workspace.make_record(orders, title="lamp", state="new")
    running.wait(lambda: len(running.told("runs", "--status", "done")) == 1)

    [run] = running.told("runs")
    assert [receipt["type"] for receipt in run["action_results"]] == [
        action["type"] for action in actions
    ]
    assert [request.target for request in receiver.requests] == ["/webhook", "/api", "/command"]
    assert json.loads(receiver.requests[1].body) == {"title": "lamp", "state": "new"}
    assert workspace.messages(chatroom) == ["lamp"]
    assert [record["entry"] for record in workspace.records(journal)] == ["lamp came"]
    assert workspace.records(orders) == []
    assert running.verify()["ok"]
