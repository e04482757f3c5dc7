import pytest
from psycopg.types.json import Jsonb

from shared.queries import executions, trigger_rules
from shared.queries.executions import get_execution, list_executions
from shared.queries.workflows import get_workflow
from tests.builders_db import NOW, insert_tenant
from tests.builders_delayed import insert_action, insert_execution, insert_workflow
from tests.builders_rules import insert_rule
from tests.integration.queries.plans import plans_of

_EXECUTIONS = """
INSERT INTO workflow_execution (
    tenant_id, workflow_id, workflow_version, line_user_id, origin_key, started_at
)
SELECT
    %(tenant)s, %(workflow)s, 1, contact.id, %(workflow)s::text || '/' || n,
    '2020-01-01Z'::timestamptz + n * interval '1 s'
FROM generate_series(1, 2000) AS n
JOIN line_user AS contact ON contact.external_id = (n %% 100)::text
"""
_STEPS = """
INSERT INTO scheduled_action (
    tenant_id, origin_key, execute_at, action_type, action_config, execution_id, workflow_id,
    workflow_version, workflow_node_path, status, finished_at, created_at, updated_at
)
SELECT
    tenant_id, id || ':' || n, '2020-01-01Z', 'notify', '{}', id, workflow_id, 1, n::text, 'done',
    '2020-01-01Z', '2020-01-01Z', '2020-01-01Z'
FROM workflow_execution, generate_series(0, 4) AS n
"""
_CONTACTS = """
INSERT INTO line_user (tenant_id, external_id, created_at, updated_at)
SELECT %(tenant)s, n::text, '2020-01-01Z', '2020-01-01Z'
FROM generate_series(0, 99) AS n
"""


@pytest.fixture
def filled(conn):
    """Parameters for the listing of a workflow among many executions."""
    tenant_id = insert_tenant(conn)
    conn.execute(_CONTACTS, {"tenant": tenant_id})
    for _ in range(5):
        workflow_id = insert_workflow(conn, tenant_id)
        values = {"tenant": tenant_id, "workflow": workflow_id}
        conn.execute(_EXECUTIONS, values)
    conn.execute(_STEPS)
    conn.execute("ANALYZE")
    return {
        "tenant_id": tenant_id,
        "workflow_id": workflow_id,
        "line_user_id": 7,
        "started_at": "2020-01-01 00:20Z",
        "id": "ffffffff-ffff-4fff-bfff-ffffffffffff",
        "limit": 100,
    }


def _start(conn, workflow, key):
    return executions.insert_execution(
        conn, workflow, line_user_id=None, context={}, origin_key=key, depth=0, now=NOW
    )


@pytest.mark.parametrize(
    "leave_one",
    [
        "UPDATE workflow_execution SET id = gen_random_uuid()",
        "UPDATE workflow_execution SET origin_key = 'another'",
    ],
)
def test_two_that_start_one_execution_may_meet_in_its_id_or_in_its_key(conn, leave_one):
    tenant_id = insert_tenant(conn)
    workflow = get_workflow(conn, tenant_id, insert_workflow(conn, tenant_id))
    assert _start(conn, workflow, "key") is not None
    conn.execute(leave_one)

    assert _start(conn, workflow, "key") is None


@pytest.mark.parametrize(
    ("clauses", "index"),
    [
        ("", "workflow_execution_listed"),
        (executions._BEFORE, "workflow_execution_listed"),
        (executions._OF_CONTACT, "workflow_execution_of_contact"),
        (executions._OF_CONTACT + executions._BEFORE, "workflow_execution_of_contact"),
    ],
    ids=["all", "page", "contact", "page of a contact"],
)
def test_a_listing_uses_the_index_of_its_filter_and_finds_steps_by_their_execution(
    conn, filled, clauses, index
):
    statement = executions._EXECUTIONS + clauses + executions._NEWEST_FIRST + executions._LISTED
    for plan in plans_of(conn, statement, filled):
        assert index in plan, plan
        assert "one_step_per_node" in plan, plan
        assert "scheduled_action_pkey" not in plan, plan
        assert "Seq Scan on scheduled_action" not in plan, plan


def test_the_rules_of_an_event_are_found_by_its_name(conn):
    tenant_id = insert_tenant(conn)
    for number in range(500):
        insert_rule(conn, tenant_id, name=f"r{number}", event=f"e{number}")
    conn.execute("ANALYZE")

    for plan in plans_of(conn, trigger_rules._OF_EVENT, {"tenant_id": tenant_id, "event": "e1"}):
        assert "trigger_rule_of_event" in plan, plan


def test_the_newest_step_is_the_last_that_was_recorded(conn):
    tenant_id = insert_tenant(conn)
    workflow_id = insert_workflow(conn, tenant_id)
    step = insert_execution(conn, tenant_id, workflow_id)
    for path, status in (("9", "done"), ("0", "done"), ("1", "failed")):
        insert_action(conn, tenant_id, status=status, **step | {"workflow_node_path": path})

    [execution] = list_executions(conn, tenant_id, workflow_id, limit=9)

    assert (execution.node_path, execution.status) == ("1", "failed")


def test_a_list_reads_no_context(conn):
    tenant_id = insert_tenant(conn)
    workflow_id = insert_workflow(conn, tenant_id)
    insert_execution(conn, tenant_id, workflow_id, context=Jsonb({"order": 4}))

    [listed] = list_executions(conn, tenant_id, workflow_id, limit=1)

    assert listed.context is None
    assert get_execution(conn, tenant_id, workflow_id, listed.id).context == {"order": 4}
