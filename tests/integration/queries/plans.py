"""What the planner makes of a statement of the product, on tables that are worth an index."""

import re

from psycopg.sql import SQL, Literal

from tests.builders_db import insert_definition, insert_state, insert_table, insert_tenant

_NAMED = re.compile(r"%\((\w+)\)[sb]")


def plans_of(conn, statement, parameters):
    """Return the plan for the parameters, and the one of a statement that is sent often.

    The driver prepares such a statement, and from the sixth time on the server may take a plan for
    any parameters.
    """
    names = list(dict.fromkeys(_NAMED.findall(statement)))
    numbered = _NAMED.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    conn.execute(f"PREPARE planned AS {numbered.replace('%%', '%')}")
    values = SQL(", ").join(Literal(parameters[name]) for name in names)
    explain = SQL("EXPLAIN EXECUTE planned ({})" if names else "EXPLAIN EXECUTE planned")
    plans = [_text(conn.execute(explain.format(values))) for _ in range(8)]
    conn.execute("DEALLOCATE planned")
    return plans[0], plans[-1]


def _text(lines):
    return "\n".join(line for (line,) in lines)


def fill_runs(conn, *, tenants=50, rows=20_000, analyse=True):
    """Insert runs of many tenants, most of them done, some due, held or failed; return a table.

    Without ``analyse`` the planner still believes what the table was before.
    """
    for _ in range(tenants):
        table = insert_table(conn)
        hash = insert_definition(conn, table.tenant_id)
        parameters = {"tenant": table.tenant_id, "table": table.id, "hash": hash}
        conn.execute(_RUNS, parameters | {"count": rows // tenants})
    if analyse:
        conn.execute("ANALYZE")
    return table


_RUNS = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, kind, record_id, identity, scheduled_for, definition_hash,
    status, next_attempt_at, announce_at, worker_id, leased_until, finished_at, error, created_at,
    updated_at
)
SELECT
    %(tenant)s, %(table)s, 'trg_' || lpad((n %% 50)::text, 12, '0'), 'record_created', n, n::text,
    '2020-01-01Z', %(hash)s, status,
    CASE WHEN status = 'pending' THEN due_at END,
    CASE WHEN status = 'pending' THEN due_at END,
    CASE WHEN status = 'running' THEN n %% 7 END,
    CASE WHEN status = 'running' THEN '2100-01-01Z'::timestamptz END,
    CASE WHEN status IN ('done', 'failed') THEN '2026-01-01Z'::timestamptz + n * interval '1 s' END,
    CASE WHEN status = 'failed' THEN 'it failed' END,
    '2020-01-01Z', '2020-01-01Z'
FROM generate_series(1, %(count)s) AS n
CROSS JOIN LATERAL (
    SELECT
        CASE n %% 40 WHEN 0 THEN 'running' WHEN 1 THEN 'failed' WHEN 2 THEN 'pending' ELSE
            CASE WHEN n %% 2 = 0 THEN 'pending' ELSE 'done' END END,
        CASE n %% 40 WHEN 2 THEN '2020-01-01Z' ELSE '2100-01-01Z' END::timestamptz
) AS fate (status, due_at)
"""


def fill_actions(conn, *, tenants=50, rows=20_000, analyse=True):
    """Insert scheduled actions of many tenants; most wait for a day far off; return a tenant's id.

    Without ``analyse`` the planner still believes what the table was before.
    """
    for _ in range(tenants):
        tenant_id = insert_tenant(conn)
        conn.execute(_ACTIONS, {"tenant": tenant_id, "count": rows // tenants})
    if analyse:
        conn.execute("ANALYZE")
    return tenant_id


_ACTIONS = """
INSERT INTO scheduled_action (
    tenant_id, origin_key, execute_at, action_type, action_config, status, next_attempt_at,
    announce_at, worker_id, leased_until, finished_at, error, created_at, updated_at
)
SELECT
    %(tenant)s, n::text, due_at, 'notify', '{}', status,
    CASE WHEN status = 'pending' THEN due_at END,
    CASE WHEN status = 'pending' THEN due_at END,
    CASE WHEN status = 'processing' THEN n %% 7 END,
    CASE WHEN status = 'processing' THEN '2100-01-01Z'::timestamptz END,
    CASE WHEN status IN ('done', 'failed', 'cancelled') THEN '2026-01-01Z'::timestamptz END,
    CASE WHEN status IN ('failed', 'cancelled') THEN 'it ended' END,
    '2020-01-01Z', '2020-01-01Z'
FROM generate_series(1, %(count)s) AS n
CROSS JOIN LATERAL (
    SELECT
        CASE n %% 40 WHEN 0 THEN 'processing' WHEN 1 THEN 'failed' WHEN 2 THEN 'cancelled'
            WHEN 3 THEN 'done' ELSE 'pending' END,
        CASE n %% 40 WHEN 4 THEN '2020-01-01Z' ELSE '2100-01-01Z' END::timestamptz
) AS fate (status, due_at)
"""


def fill_records(conn, *, tenants=5, records=20_000):
    """Insert records, each in the due index and the ledger of a date trigger; return its state."""
    for _ in range(tenants):
        table = insert_table(conn, triggers=[])
        state = insert_state(conn, table)
        parameters = {"tenant": table.tenant_id, "table": table.id, "ref": state.ref}
        conn.execute(_RECORDS, parameters | {"count": records // tenants})
        conn.execute(_DUE_VALUES, parameters)
        conn.execute(_OCCURRENCES, parameters)
    conn.execute("ANALYZE")
    return state


_RECORDS = """
INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)
SELECT
    %(tenant)s, %(table)s, '{"c2": "2099-01-01", "c3": 1}',
    '2020-01-01Z'::timestamptz + n * interval '1 s', '2020-01-01Z'
FROM generate_series(1, %(count)s) AS n
"""

_DUE_VALUES = """
INSERT INTO due_value (trigger_ref, record_id, tenant_id, version, fire_at)
SELECT %(ref)s, id, tenant_id, 1, '2099-01-01Z'::timestamptz - id * interval '1 day'
FROM record WHERE table_id = %(table)s
"""

_OCCURRENCES = """
INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
SELECT %(ref)s, id, '2020-01-01', true, '2020-01-01Z' FROM record WHERE table_id = %(table)s
"""
