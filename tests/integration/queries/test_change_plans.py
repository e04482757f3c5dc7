"""What the planner makes of the statements on staged changes, of 20,000 in 50 tenants."""

from uuid import UUID

import pytest

from shared.queries import announcements, approved_changes, change_lists, staged_changes
from shared.queries.change_lists import ChangeFilter
from tests.builders_db import LONG_AGO, NOW, insert_table
from tests.integration.queries.plans import plans_of

TOKEN = UUID(int=1)
IDS = list(range(1, 21))
_CHANGES = """
INSERT INTO staged_change (
    tenant_id, table_id, record_id, operation, base_version, base, proposed, origin_key, run_id,
    status, reviewed_at, announce_at, finished_at, error, created_at, updated_at
)
SELECT
    %(tenant)s, %(table)s, n, 'update', 1, '{}', '{}', n::text, n, status,
    CASE WHEN status <> 'pending' THEN '2020-01-01Z'::timestamptz END,
    CASE WHEN status = 'approved' THEN due_at END,
    CASE WHEN status IN ('applied', 'failed') THEN '2026-01-01Z'::timestamptz + n * interval '1 s'
    END,
    CASE WHEN status = 'failed' THEN 'it failed' END,
    '2020-01-01Z', '2020-01-01Z'
FROM generate_series(1, 400) AS n
CROSS JOIN LATERAL (
    SELECT
        CASE n %% 40 WHEN 0 THEN 'pending' WHEN 1 THEN 'approved' WHEN 2 THEN 'failed'
            ELSE 'applied' END,
        CASE n %% 80 WHEN 1 THEN '2020-01-01Z' ELSE '2100-01-01Z' END::timestamptz
) AS fate (status, due_at)
"""


@pytest.fixture
def table(conn):
    """The last of fifty tables with 400 changes each, few of which wait for anything."""
    for _ in range(50):
        table = insert_table(conn, approval="required")
        conn.execute(_CHANGES, {"tenant": table.tenant_id, "table": table.id})
    conn.execute("VACUUM ANALYZE")
    return table


def _assert_uses(plans, *indexes):
    for plan in plans:
        assert "Seq Scan on staged_change" not in plan, plan
        assert any(index in plan for index in indexes), plan


def test_statements_on_staged_changes_use_their_index(conn, table):
    of_one = {"id": 7, "token": TOKEN, "table_id": table.id, "change_id": 7}
    review = {"reviewed_by": None, "reason": None, "now": NOW}
    for statement, parameters, index in (
        (
            staged_changes._COUNT_PENDING_OF_TABLE,
            {"table_id": table.id, "limit": 10_000},
            "staged_change_to_review",
        ),
        (staged_changes._OLDEST_PENDING_AT, {}, "staged_change_to_review"),
        (
            staged_changes._FIND_BY_ORIGIN,
            {"tenant_id": table.tenant_id, "origin_key": "7"},
            "a_change_is_staged_once",
        ),
        (staged_changes._APPROVE, of_one | review, "staged_change_"),
        (approved_changes._ANNOUNCE_OLDEST, {"limit": 20}, "staged_change_to_apply"),
        (
            approved_changes._ANNOUNCE_FAIREST,
            {"limit": 20, "after": TOKEN},
            "staged_change_fair",
        ),
        (approved_changes._UNANNOUNCE, {"ids": IDS, "tokens": [TOKEN]}, "staged_change_pkey"),
        (approved_changes._LIST_APPROVED, {"ids": IDS, "tokens": [TOKEN]}, "staged_change_"),
        (approved_changes._LOCK_APPROVED, of_one, "staged_change_"),
        (approved_changes._COUNT_OVERDUE, {"limit": 1000}, "staged_change_to_apply"),
        (staged_changes._COUNT_PENDING, {"limit": 1000}, "staged_change_to_review"),
        (
            staged_changes._DELETE_FINISHED,
            {"before": LONG_AGO, "limit": 500},
            "staged_change_finished",
        ),
        (change_lists._GET_CHANGE, of_one, "staged_change_"),
        (announcements._LIST_WAITS, {}, "staged_change_to_apply"),
    ):
        _assert_uses(plans_of(conn, statement, parameters), index)


def test_a_fair_batch_asks_each_tenant_by_its_index_though_one_has_all(conn):
    for _ in range(20):
        table = insert_table(conn, approval="required")
    all_due = _CHANGES.replace("n %% 40", "1").replace("n %% 80", "1").replace("400", "5000")
    conn.execute(all_due, {"tenant": table.tenant_id, "table": table.id})
    conn.execute("VACUUM ANALYZE")

    batch = {"limit": 20, "after": TOKEN}
    plans = plans_of(conn, approved_changes._ANNOUNCE_FAIREST, batch)

    _assert_uses(plans, "staged_change_fair")


FILTERS = {
    "all": ({}, ["listed", "pkey"]),
    "pending": ({"status": "pending"}, ["to_review", "by_status"]),
    "status": ({"status": "failed"}, ["by_status"]),
    "record": ({"record_id": 399}, ["of_record"]),
    "run": ({"run_id": 399}, ["of_run"]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_listing_uses_the_index_of_its_filter(conn, table, name):
    given, indexes = FILTERS[name]
    filter = ChangeFilter(**given)
    parameters = change_lists.parameters(table, filter) | {"before": 19_999, "limit": 50}
    statement = (
        change_lists.SELECT_CHANGES
        + change_lists.clauses(filter)
        + change_lists._BEFORE
        + change_lists._NEWEST_FIRST
    )

    planned, _ = plans_of(conn, statement, parameters)

    _assert_uses([planned], *(f"staged_change_{index}" for index in indexes))


def test_a_review_of_all_finds_what_is_pending(conn, table):
    filter = ChangeFilter()
    statement = (
        staged_changes._APPROVED
        + staged_changes._CHOSEN
        + change_lists.clauses(filter)
        + staged_changes._LOCKED
    )
    given = {"reviewed_by": None, "reason": None, "now": NOW, "limit": 1000}

    planned, _ = plans_of(conn, statement, change_lists.parameters(table, filter) | given)

    _assert_uses([planned], "staged_change_to_review")
