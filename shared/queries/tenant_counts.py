"""How much a tenant has of what is limited."""

from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

from psycopg import Connection

Counted = Literal[
    "tables", "triggers", "trigger_rules", "commands", "secrets", "tokens", "signing_keys"
]

_COUNTS: dict[Counted, LiteralString] = {
    "tables": """
SELECT count(*)
FROM custom_table
WHERE tenant_id = %(tenant_id)s AND trashed_at IS NULL
""",
    "triggers": """
SELECT coalesce(sum(jsonb_array_length(triggers)), 0)
FROM custom_table
WHERE tenant_id = %(tenant_id)s AND trashed_at IS NULL AND jsonb_typeof(triggers) = 'array'
""",
    "trigger_rules": """
SELECT count(*)
FROM trigger_rule
WHERE tenant_id = %(tenant_id)s
""",
    "commands": """
SELECT count(*)
FROM command
WHERE tenant_id = %(tenant_id)s
""",
    "secrets": """
SELECT count(*)
FROM secret
WHERE tenant_id = %(tenant_id)s
""",
    "tokens": """
SELECT count(*)
FROM api_token
WHERE tenant_id = %(tenant_id)s AND revoked_at IS NULL
""",
    "signing_keys": """
SELECT count(*)
FROM signing_key
WHERE tenant_id = %(tenant_id)s AND (expires_at IS NULL OR expires_at > %(now)s)
""",
}


def count_of_tenant(conn: Connection, tenant_id: UUID, counted: Counted, *, now: datetime) -> int:
    """Return how many of something a tenant has: live tables and what is on them, valid secrets."""
    return _count(conn, _COUNTS[counted], {"tenant_id": tenant_id, "now": now})


_COUNT_PENDING = """
SELECT count(*)
FROM (
    SELECT
    FROM scheduled_action
    WHERE tenant_id = %(tenant_id)s AND status = 'pending'
    LIMIT %(limit)s
) AS pending
"""


def count_pending_actions(conn: Connection, tenant_id: UUID, *, limit: int) -> int:
    """Return how many scheduled actions of a tenant are pending, at most ``limit``."""
    return _count(conn, _COUNT_PENDING, {"tenant_id": tenant_id, "limit": limit})


def _count(conn: Connection, statement: LiteralString, parameters: dict[str, Any]) -> int:
    row = conn.execute(statement, parameters).fetchone()
    assert row is not None
    return int(row[0])
