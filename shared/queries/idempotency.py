"""Answers already given under an Idempotency-Key; a key belongs to a tenant, or to the admin."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """A key and what was answered under it; ``status`` None: the work is not finished."""

    request_hash: bytes
    status: int | None
    headers: dict[str, str]
    body: str


_TAKE_KEY = """
INSERT INTO idempotent_answer (tenant_id, key, request_hash, created_at)
VALUES (%(tenant_id)s, %(key)s, %(request_hash)s, %(now)s)
ON CONFLICT ON CONSTRAINT a_key_is_answered_once DO NOTHING
"""


def take_key(
    conn: Connection, *, tenant_id: UUID | None, key: str, request_hash: bytes, now: datetime
) -> bool:
    """Take a key for a request; False when it was taken.

    Waits, within the session's lock limit, for another transaction that is taking it.
    """
    parameters = {"tenant_id": tenant_id, "key": key, "request_hash": request_hash, "now": now}
    return conn.execute(_TAKE_KEY, parameters).rowcount == 1


_LOCK_KEY = """
SELECT request_hash, status, headers, body
FROM idempotent_answer
WHERE tenant_id IS NOT DISTINCT FROM %(tenant_id)s AND key = %(key)s
FOR UPDATE
"""


def lock_key(conn: Connection, *, tenant_id: UUID | None, key: str) -> KnownKey | None:
    """Lock a key that was taken and return it, None when it was not (or is deleted by age)."""
    with conn.cursor(row_factory=class_row(KnownKey)) as cursor:
        return cursor.execute(_LOCK_KEY, {"tenant_id": tenant_id, "key": key}).fetchone()


_KEEP_ANSWER = """
UPDATE idempotent_answer
SET request_hash = %(request_hash)s, status = %(status)s, headers = %(headers)s, body = %(body)s
WHERE tenant_id IS NOT DISTINCT FROM %(tenant_id)s AND key = %(key)s AND status IS NULL
"""


def keep_answer(
    conn: Connection,
    *,
    tenant_id: UUID | None,
    key: str,
    request_hash: bytes,
    status: int | None,
    headers: Mapping[str, str],
    body: str,
) -> None:
    """Keep the answer of a key that was taken; with ``status`` None, how far the work has come."""
    parameters: dict[str, Any] = {
        "tenant_id": tenant_id,
        "key": key,
        "request_hash": request_hash,
        "status": status,
        "headers": Jsonb(headers),
        "body": body,
    }
    conn.execute(_KEEP_ANSWER, parameters)


_DELETE_ANSWERS = """
DELETE FROM idempotent_answer
WHERE ctid = ANY(ARRAY(
    SELECT ctid
    FROM idempotent_answer
    WHERE created_at < %(before)s
    ORDER BY created_at, key, tenant_id
    LIMIT %(limit)s
))
"""


def delete_answers(conn: Connection, *, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` keys taken before that instant and return how many went."""
    return conn.execute(_DELETE_ANSWERS, {"before": before, "limit": limit}).rowcount
