"""Messages delivered to chatrooms: stored once per action, listed newest first."""

from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.chat_messages import ChatMessage

_STORE_MESSAGE = """
INSERT INTO chat_message (tenant_id, chatroom_id, message, origin_key, created_at)
VALUES (%(tenant_id)s, %(chatroom_id)s, %(message)s, %(origin_key)s, %(now)s)
ON CONFLICT ON CONSTRAINT a_message_is_stored_once DO NOTHING
RETURNING id
"""
_FIND_STORED = """
SELECT id FROM chat_message WHERE tenant_id = %(tenant_id)s AND origin_key = %(origin_key)s
"""


def store_message(
    conn: Connection,
    *,
    tenant_id: UUID,
    chatroom_id: UUID,
    message: str,
    origin_key: str,
    now: datetime,
) -> int:
    """Store the message of an action and return its id; under the same key again, the first's."""
    parameters = {
        "tenant_id": tenant_id,
        "chatroom_id": chatroom_id,
        "message": message,
        "origin_key": origin_key,
        "now": now,
    }
    row = conn.execute(_STORE_MESSAGE, parameters).fetchone()
    if row is None:
        row = conn.execute(_FIND_STORED, parameters).fetchone()
    assert row is not None
    return int(row[0])


_LIST_MESSAGES = """
SELECT id, chatroom_id, message, created_at
FROM chat_message
WHERE tenant_id = %(tenant_id)s AND chatroom_id = %(chatroom_id)s AND id < %(before)s
ORDER BY id DESC
LIMIT %(limit)s
"""

_NEWEST = 2**63 - 1


def list_messages(
    conn: Connection,
    *,
    tenant_id: UUID,
    chatroom_id: UUID,
    before: int | None = None,
    limit: int,
) -> list[ChatMessage]:
    """Return a page of a chatroom's messages, the newest first, those before ``before``."""
    parameters = {
        "tenant_id": tenant_id,
        "chatroom_id": chatroom_id,
        "before": _NEWEST if before is None else before,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(ChatMessage)) as cursor:
        return cursor.execute(_LIST_MESSAGES, parameters).fetchall()
