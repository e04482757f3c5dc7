"""What the planner makes of a statement of the product, on a table that is worth an index."""

from tests.builders_db import insert_definition, insert_table


def plan_of(conn, statement, parameters):
    """Return the plan as text."""
    return "\n".join(line for (line,) in conn.execute("EXPLAIN " + statement, parameters))


def fill_runs(conn, *, tenants=20, runs=20_000):
    """Insert runs of many tenants, one in twenty due, the others far off; return the tables."""
    tables = [insert_table(conn) for _ in range(tenants)]
    for table in tables:
        hash = insert_definition(conn, table.tenant_id)
        conn.execute(
            """
            INSERT INTO trigger_run (
                tenant_id, table_id, trigger_id, kind, record_id, identity, scheduled_for,
                definition_hash, next_attempt_at, announce_at, created_at, updated_at
            )
            SELECT %(tenant)s, %(table)s, 'trg_000000000001', 'record_created', n, n::text,
                '2020-01-01Z', %(hash)s, at, at, '2020-01-01Z', '2020-01-01Z'
            FROM generate_series(1, %(count)s) AS n
            CROSS JOIN LATERAL (
                SELECT CASE WHEN n %% 20 = 0 THEN '2020-01-01Z' ELSE '2100-01-01Z' END::timestamptz
            ) AS due (at)
            """,
            {"tenant": table.tenant_id, "table": table.id, "hash": hash, "count": runs // tenants},
        )
    conn.execute("ANALYZE")
    return tables
