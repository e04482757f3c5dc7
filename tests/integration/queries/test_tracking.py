"""What the planner makes of the statements on links and clicks, of thousands beside many waits."""

import pytest

from shared.queries import tracking
from tests.builders_db import insert_tenant
from tests.integration.queries.plans import fill_actions, plans_of

_LINKS = """
WITH made AS (
    INSERT INTO tracking_link (tenant_id, token, target_url, created_at)
    SELECT %(tenant)s, lpad(n::text, 32, '0'), 'https://example.com', '2020-01-01Z'
    FROM generate_series(1, 5000) AS n
    RETURNING id
), others AS (
    INSERT INTO tracking_link (tenant_id, token, target_url, created_at)
    SELECT tenant.id, substr(md5(tenant.id::text || n), 1, 32), 'https://example.com', '2020-01-01Z'
    FROM tenant CROSS JOIN generate_series(1, 1000) AS n
    WHERE tenant.id <> %(tenant)s AND (tenant.id <> %(small)s OR n <= 20)
), clicked AS (
    INSERT INTO tracking_click (link_id, first_clicked_at, unlocked_at)
    SELECT id, '2020-01-01Z', CASE WHEN id %% 1000 > 0 THEN '2020-01-01Z'::timestamptz END
    FROM made
    WHERE id %% 2 = 0
)
SELECT min(id) FROM made
"""
_WAITS = """
UPDATE scheduled_action
SET mode = 'waitForTracking', expires_at = '2100-01-01Z',
    tracking_link_id = %(first)s + id %% 5000
WHERE tenant_id = %(tenant)s AND status = 'pending'
"""


@pytest.fixture
def known(conn):
    """A tenant whose scheduled actions wait for its links, among many."""
    tenant = fill_actions(conn, analyse=False)
    small = insert_tenant(conn)
    (first,) = conn.execute(_LINKS, {"tenant": tenant, "small": small}).fetchone()
    conn.execute(_WAITS, {"tenant": tenant, "first": first})
    conn.execute("VACUUM ANALYZE")
    return {"tenant_id": tenant, "link_id": first + 7, "token": f"{7:032}", "small": small}


def test_statements_on_links_and_clicks_use_their_index(conn, known):
    page = {"tenant_id": known["small"], "before": 2**63 - 1, "limit": 100}
    of_token = ("tracking_link_token_key", "tracking_click_pkey")

    for statement, parameters, indexes in (
        (tracking._FIND_LINK, known, of_token),
        (tracking._WATCH_LINK, known, of_token),
        (tracking._LOCK_UNTRIED, known, ("tracking_link_pkey", "tracking_click_")),
        (
            tracking._UNLOCK,
            known | {"limit": 1000},
            ("scheduled_action_waiting", "tracking_click_pkey"),
        ),
        (
            tracking._LIST_UNTRIED,
            {"after": 0, "limit": 100},
            ("tracking_click_not_yet_unlocked",),
        ),
        (tracking._LIST_LINKS, page, ("tracking_link_tenant_id_id_key",)),
    ):
        for plan in plans_of(conn, statement, parameters):
            assert all(index in plan for index in indexes), plan
            assert "Seq Scan on scheduled_action" not in plan, plan
            assert "Seq Scan on tracking_link" not in plan, plan
