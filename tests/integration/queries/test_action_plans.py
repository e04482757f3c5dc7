"""What the planner makes of the statements on scheduled actions, of 20,000 in 50 tenants."""

from uuid import UUID

import pytest

from shared.queries import action_lists, action_moves, claimed_actions, scheduled_actions
from shared.queries.action_lists import ActionFilter
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_table
from tests.builders_delayed import insert_execution, insert_line_user
from tests.integration.queries.plans import fill_actions, plans_of

TOKEN = UUID(int=1)
IDS = list(range(1, 21))
_SUBJECTS = """
UPDATE scheduled_action
SET line_user_id = CASE WHEN id %% 20 = 0 THEN %(contact)s::bigint END,
    table_id = %(table)s,
    record_id = id,
    execution_id = CASE WHEN id %% 20 = 0 THEN %(execution_id)s::uuid END,
    workflow_id = CASE WHEN id %% 20 = 0 THEN %(workflow_id)s::bigint END,
    workflow_version = CASE WHEN id %% 20 = 0 THEN 1 END,
    workflow_node_path = CASE WHEN id %% 20 = 0 THEN id::text END
WHERE tenant_id = %(tenant)s
"""


@pytest.fixture
def known(conn):
    """A tenant with subjects for its actions."""
    tenant = fill_actions(conn, analyse=False)
    table = insert_table(conn, tenant_id=tenant)
    subjects = {
        "tenant": tenant,
        "contact": insert_line_user(conn, tenant),
        "table": table.id,
        **insert_execution(conn, tenant),
    }
    conn.execute(_SUBJECTS, subjects)
    conn.execute("VACUUM ANALYZE")
    return subjects


def _assert_uses(plans, *indexes):
    for plan in plans:
        assert "Seq Scan on scheduled_action" not in plan, plan
        assert any(index in plan for index in indexes), plan


def test_statements_on_scheduled_actions_use_their_index(conn, known):
    for statement, parameters, index in (
        (
            scheduled_actions._FIND_ACTION_ID,
            {"tenant_id": known["tenant"], "origin_key": "7"},
            "an_action_is_recorded_once",
        ),
        (
            scheduled_actions._DECIDE_BRANCHES,
            {"ids": IDS, "tokens": [TOKEN] * 20},
            "scheduled_action_pkey",
        ),
        (
            claimed_actions._LOAD_CLAIMED,
            {"ids": IDS, "lease_token": TOKEN},
            "scheduled_action_pkey",
        ),
        (
            action_moves._DELETE_FINISHED,
            {"before": LONG_AGO, "limit": 500},
            "scheduled_action_finished",
        ),
        (action_lists._COUNT_FAILED, {}, "scheduled_action_by_status"),
        (action_lists._COUNT_STALE, {"stale_before": LONG_AGO}, "scheduled_action_held"),
    ):
        _assert_uses(plans_of(conn, statement, parameters), index)


_MANY_RECORDS = """
INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)
SELECT %(tenant)s, %(table)s, '{"c3": 1}', '2020-01-01Z', '2020-01-01Z'
FROM generate_series(1, 5000)
"""
_MANY_CONTACTS = """
INSERT INTO line_user (tenant_id, external_id, created_at, updated_at)
SELECT %(tenant)s, 'contact ' || n, '2020-01-01Z', '2020-01-01Z'
FROM generate_series(1, 5000) AS n
"""
_MANY_EXECUTIONS = """
INSERT INTO workflow_execution (
    tenant_id, workflow_id, workflow_version, origin_key, started_at
)
SELECT %(tenant)s, %(workflow_id)s, 1, 'start ' || n, '2020-01-01Z'
FROM generate_series(1, 5000) AS n
"""


def test_what_belongs_to_a_claimed_action_is_found_by_key_under_old_statistics(conn, known):
    for fill in (_MANY_RECORDS, _MANY_CONTACTS, _MANY_EXECUTIONS):
        conn.execute(fill, known)

    planned, _ = plans_of(conn, claimed_actions._LOAD_CLAIMED, {"ids": IDS, "lease_token": TOKEN})

    for index in ("record_pkey", "line_user_pkey", "workflow_execution_pkey"):
        assert index in planned, planned


FILTERS = {
    "all": (lambda known: {}, "listed"),
    "status": (lambda known: {"status": "failed"}, "by_status"),
    "contact": (lambda known: {"line_user_id": known["contact"]}, "of_contact"),
    "record": (lambda known: {"table_id": known["table"], "record_id": 19_999}, "of_record"),
    "workflow": (lambda known: {"workflow_id": known["workflow_id"]}, "of_workflow"),
    "time": (lambda known: {"from_at": NOW, "to_at": FAR_OFF}, "calendar"),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_listing_uses_the_index_of_its_filter(conn, known, name):
    filter_of, index = FILTERS[name]
    filter = ActionFilter(**filter_of(known))
    place = {"after_at": NOW, "after_id": 19_999, "limit": 50}
    parameters = action_lists.parameters(known["tenant"], filter) | place

    planned, _ = plans_of(conn, action_lists._statement(filter, is_first=False), parameters)

    _assert_uses([planned], f"scheduled_action_{index}")


def test_the_steps_of_an_execution_are_found_by_it(conn, known):
    filter = ActionFilter(execution_id=known["execution_id"])
    parameters = action_lists.parameters(known["tenant"], filter) | {"limit": 50}

    planned, _ = plans_of(conn, action_lists._statement(filter, is_first=True), parameters)

    _assert_uses([planned], "one_step_per_node", "scheduled_action_of_workflow")
