"""A workspace with something of everything, for tests that send whatever they like at it."""

import json
from dataclasses import dataclass
from uuid import UUID

from tests.builders_delayed import insert_action, insert_wait
from tests.builders_staged import insert_change
from tests.integration.api.callers import Caller, new_table

NOBODYS = UUID("22222222-2222-4222-8222-222222222222")
TRIGGERS = [
    {
        "on": "record_created",
        "actions": [{"type": "webhook", "url": "https://example.com/${row.案件名稱}"}],
    },
    {
        "on": "schedule",
        "schedule": {"type": "date_column_reached", "column": "到期時間"},
        "actions": [{"type": "update_record", "data": {"amount": 1}}],
    },
    {
        "on": "schedule",
        "schedule": {"type": "interval", "every_seconds": 60},
        "actions": [{"type": "create_record", "table_id": str(NOBODYS), "data": {}}],
    },
]
RULE = {
    "name": "thank",
    "event": "ordered",
    "conditions": [{"column": "event.sum", "op": "gt", "value": 100}],
    "actions": [
        {
            "type": "notify",
            "chatroom_id": str(NOBODYS),
            "message": "$line_user.display_name",
            "delay": {"seconds": 60},
        }
    ],
}
WORKFLOW = {
    "name": "offer",
    "nodes": [
        {"type": "action", "action": {**RULE["actions"][0], "message": "$link.offer"}},
        {
            "type": "wait_for_tracking",
            "seconds": 60,
            "link": "offer",
            "target_url": "https://example.com",
            "not_clicked": [{"type": "branch", "when": RULE["conditions"], "then": []}],
        },
    ],
}
EVERYTHING = """
    SELECT string_agg(
        format(
            $$SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM %I AS t$$,
            relname
        ),
        ' UNION ALL ' ORDER BY relname
    )
    FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""


@dataclass(frozen=True, kw_only=True)
class World:
    """A workspace with something of everything, and ids that lead to it or past it."""

    who: Caller
    ids: dict[str, list]
    everything: str
    conn: object

    def state(self):
        """Return a value that differs when any row of any table does."""
        return self.conn.execute(self.everything).fetchall()


def a_workspace(who, tenant):
    """Fill a table with records, triggers and runs; return its id and ids of what is in it."""
    path, table = new_table(who, tenant=tenant)
    triggers = json.loads(json.dumps(TRIGGERS).replace(str(NOBODYS), table["id"]))
    answer = who.put(f"{path}/triggers", json={"triggers": triggers})
    assert answer.status_code == 200, answer.json
    records = [
        who.post(f"{path}/records", json={"data": {"案件名稱": "a", "到期時間": cell}}).json["id"]
        for cell in ("2020-01-01", "2999-01-01", "x")
    ]
    who.delete(f"{path}/records/{records[2]}")
    runs = [run["id"] for run in who.get(f"{path}/trigger-runs").json["items"]]
    who.post(f"{path}/trigger-runs/{runs[0]}/cancel")
    return table["id"], records, runs


def _trigger_ids(who, table):
    return [one["id"] for one in who.get(f"{who.tables}/{table}/triggers").json["triggers"]]


def a_world(conn, who, moderator, stranger, *, tenant, other_tenant):
    """Make the workspaces of two tenants, and return that of ``tenant`` as ``who`` meets it."""
    table, records, runs = a_workspace(who, tenant)
    changes = [
        insert_change(conn, table, status=status) for status in ("pending", "approved", "failed")
    ]
    theirs, _, _ = a_workspace(stranger, other_tenant)
    trashed, _ = new_table(who, tenant=tenant)
    who.delete(trashed)
    schema = {"type": "object", "properties": {}}
    body = {"name": "c", "url": "https://example.com", "input_schema": schema}
    command = moderator.post("/v1/commands", json=body).json["id"]
    moderator.put("/v1/secrets/crm_token", json={"value": "canary"})
    token = moderator.post("/v1/tokens", json={"name": "x", "role": "viewer"}).json["id"]
    contact = moderator.post("/v1/line-users", json={"external_id": "crm-1"}).json["id"]
    body = {"target_url": "https://example.com/offer"}
    link = moderator.post("/v1/tracking-links", json=body).json
    rule = moderator.post("/v1/trigger-rules", json=RULE).json["id"]
    workflow = moderator.post("/v1/workflows", json=WORKFLOW).json["id"]
    started = moderator.post(f"/v1/workflows/{workflow}/executions", json={}).json["id"]
    event = moderator.post("/v1/events", json={"name": "bought"}).json["id"]
    tables = [table, table, table, table, theirs, trashed.rpartition("/")[2], str(NOBODYS)]
    return World(
        who=who,
        ids={
            "table_id": tables,
            "record_id": [*records, 2**63 - 1],
            "run_id": [*runs, 2**63 - 1],
            "trigger_id": [*_trigger_ids(who, table), "trg_ffffffffffff"],
            "change_id": [*changes, 2**63 - 1],
            "command_id": [command, 1, 2**63 - 1],
            "secret_name": ["crm_token", "none"],
            "rule_id": [rule, rule + 1, 2**63 - 1],
            "workflow_id": [workflow, workflow + 1, 2**63 - 1],
            "version": [1, 2, 2**63 - 1],
            "execution_id": [started, str(NOBODYS)],
            "event_id": [event, event + 1, 2**63 - 1],
            "line_user_id": [contact, contact + 1, 2**63 - 1],
            "link_id": [link["id"], link["id"] + 1, 2**63 - 1],
            "token": [link["token"], "x" * 32, "short", "x" * 33],
            "token_id": [token, str(NOBODYS)],
            "chatroom_id": [str(NOBODYS)],
            "action_id": [
                insert_action(conn, tenant.id),
                insert_wait(conn, tenant.id),
                insert_action(conn, tenant.id, status="failed"),
                insert_action(conn, other_tenant.id),
                2**63 - 1,
            ],
            "tenant": [str(tenant.id), str(other_tenant.id), str(NOBODYS)],
        },
        everything=conn.execute(EVERYTHING).fetchone()[0],
        conn=conn,
    )
