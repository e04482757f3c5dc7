"""Events of a tenant, each taken once under its key, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEvent:
    """An event that was taken: the rules that matched it, and the actions that they scheduled."""

    id: int
    name: str
    request_hash: bytes | None
    rule_ids: list[int]
    action_ids: list[int]
    created_at: datetime


_INSERT = """
INSERT INTO event (
    tenant_id, name, line_user_id, data, idempotency_key, request_hash, rule_ids, created_at
)
VALUES (
    %(tenant_id)s, %(name)s, %(line_user_id)s, %(data)s, %(key)s, %(request_hash)s,
    %(rule_ids)s, %(now)s
)
ON CONFLICT (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id
"""


def insert_event(
    conn: Connection,
    *,
    tenant_id: UUID,
    name: str,
    line_user_id: int | None,
    data: Mapping[str, Any],
    key: str | None,
    request_hash: bytes,
    rule_ids: Sequence[int],
    now: datetime,
) -> int | None:
    """Insert an event and return its id; None when one was taken under its key.

    Waits, within the session's lock limit, for another transaction that is taking it.
    """
    parameters = {
        "tenant_id": tenant_id,
        "name": name,
        "line_user_id": line_user_id,
        "data": Jsonb(dict(data)),
        "key": key,
        "request_hash": request_hash,
        "rule_ids": list(rule_ids),
        "now": now,
    }
    row = conn.execute(_INSERT, parameters).fetchone()
    return None if row is None else row[0]


_KEEP_ACTIONS = """
UPDATE event
SET action_ids = %(action_ids)s
WHERE id = %(event_id)s
"""


def keep_actions(conn: Connection, event_id: int, action_ids: Sequence[int]) -> None:
    """Keep which actions an event has scheduled."""
    conn.execute(_KEEP_ACTIONS, {"event_id": event_id, "action_ids": list(action_ids)})


_BY_KEY = """
SELECT id, name, request_hash, rule_ids, action_ids, created_at
FROM event
WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(key)s
"""


def find_event(conn: Connection, tenant_id: UUID, key: str) -> TakenEvent | None:
    """Return the event that was taken under a key, None without one."""
    with conn.cursor(row_factory=class_row(TakenEvent)) as cursor:
        return cursor.execute(_BY_KEY, {"tenant_id": tenant_id, "key": key}).fetchone()


_DELETE_EVENTS = """
DELETE FROM event
WHERE id = ANY(ARRAY(
    SELECT id
    FROM event
    WHERE created_at < %(before)s
    ORDER BY created_at, id
    LIMIT %(limit)s
))
"""


def delete_events(conn: Connection, *, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` events taken before then, the oldest; return how many went.

    Their keys are free again; what they have scheduled stays.
    """
    return conn.execute(_DELETE_EVENTS, {"before": before, "limit": limit}).rowcount
