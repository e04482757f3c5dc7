"""Which definitions name a table: found by its id, however it is spelled."""

import pytest
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb

from shared.queries.table_references import (
    list_tables_naming,
    lock_tables_naming,
    rules_naming,
    workflows_naming,
)
from tests.builders_db import NOW, insert_row, insert_table, insert_tenant


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _creating(table):
    return {"type": "create_record", "table_id": str(table.id).upper(), "data": {}}


def _triggers(*actions):
    return [{"id": "trg", "actions": [{"type": "notify"}, *actions]}]


def test_other_tables_of_the_tenant_trashed_ones_too(conn, other_conn, table):
    tenant_id, late = table.tenant_id, {"delay": {"on_expire": [_creating(table)]}}
    found = [
        insert_table(conn, tenant_id=tenant_id, triggers=_triggers(_creating(table))).id,
        insert_table(conn, tenant_id=tenant_id, triggers=_triggers(late), trashed_at=NOW).id,
    ]
    insert_table(conn, triggers=_triggers(_creating(table)))
    other = insert_table(conn, tenant_id=tenant_id, triggers=_triggers({"type": "notify"}))
    insert_table(conn, tenant_id=tenant_id, triggers=_triggers(_creating(other)))
    other_conn.execute("SET lock_timeout = '50ms'")

    listed = list_tables_naming(conn, tenant_id, table.id)

    assert [one.id for one in listed] == sorted(found)
    with conn.transaction():
        assert lock_tables_naming(conn, tenant_id, table.id) == listed
        with pytest.raises(LockNotAvailable):
            lock_tables_naming(other_conn, tenant_id, table.id)


def test_rules_and_the_newest_versions_of_workflows(conn, table):
    def a_rule(tenant_id, action):
        return insert_row(
            conn,
            "trigger_rule",
            tenant_id=tenant_id,
            name=f"rule {action['type']}",
            event="e",
            conditions=Jsonb([]),
            actions=Jsonb([action]),
            created_at=NOW,
            updated_at=NOW,
        )

    def a_workflow(name, *versions):
        workflow = insert_row(
            conn,
            "workflow",
            tenant_id=table.tenant_id,
            name=name,
            version=len(versions),
            created_at=NOW,
            updated_at=NOW,
        )
        for number, action in enumerate(versions, 1):
            conn.execute(
                "INSERT INTO workflow_version (workflow_id, version, tenant_id, nodes, created_at)"
                " VALUES (%s, %s, %s, %s, %s)",
                [
                    workflow,
                    number,
                    table.tenant_id,
                    Jsonb([{"type": "action", "action": action}]),
                    NOW,
                ],
            )
        return workflow

    rule = a_rule(table.tenant_id, _creating(table))
    a_rule(table.tenant_id, {"type": "notify"})
    a_rule(insert_tenant(conn), _creating(table))
    workflow = a_workflow("now", {"type": "notify"}, _creating(table))
    a_workflow("no more", _creating(table), {"type": "notify"})

    assert rules_naming(conn, table.tenant_id, table.id) == [rule]
    assert workflows_naming(conn, table.tenant_id, table.id) == [workflow]
