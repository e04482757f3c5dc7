from shared.queries import secrets
from tests.builders_db import insert_tenant
from tests.integration.queries.plans import plans_of

_FILL = """
INSERT INTO secret (tenant_id, name, value, created_at, updated_at)
SELECT %(tenant_id)s, 'secret_' || n, 'v', now(), now()
FROM generate_series(1, 200) AS n
"""


def test_a_call_finds_its_secrets_by_name(conn):
    for _ in range(50):
        tenant_id = insert_tenant(conn)
        conn.execute(_FILL, {"tenant_id": tenant_id})
    conn.execute("ANALYZE secret")

    parameters = {"tenant_id": tenant_id, "names": ["secret_7", "secret_8"]}

    for plan in plans_of(conn, secrets._VALUES, parameters):
        assert "Seq Scan" not in plan, plan
        assert "a_name_is_used_once" in plan, plan
    assert sorted(secrets.secret_values(conn, tenant_id, ["secret_7", "none"])) == ["secret_7"]
