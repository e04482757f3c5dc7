"""Every stored secret, whatever it is of: to look at how it is kept, and to change that.

For sessions of the worker's role: no other may read them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString, get_args
from uuid import UUID

from psycopg import Connection

from shared.sealing import Sealed

Kind = Literal["signing_key", "secret"]
KINDS: tuple[Kind, ...] = get_args(Kind)
START = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret as it is stored; ``in_use``: somebody may still ask for it."""

    id: UUID
    sealed: Sealed
    in_use: bool


_LIST: dict[Kind, LiteralString] = {
    "signing_key": """
SELECT id, secret, sealed_with, expires_at IS NULL OR expires_at > %(now)s
FROM signing_key
WHERE id > %(after)s
ORDER BY id
LIMIT %(limit)s
""",
    "secret": """
SELECT id, value, sealed_with, true
FROM secret
WHERE id > %(after)s
ORDER BY id
LIMIT %(limit)s
""",
}


def list_secrets(
    conn: Connection, kind: Kind, *, after: UUID = START, limit: int, now: datetime
) -> list[StoredSecret]:
    """Return a page of the secrets of all tenants, by id, behind ``after``."""
    parameters = {"after": after, "limit": limit, "now": now}
    return _secrets(conn, _LIST[kind], parameters)


_LOCK: dict[Kind, LiteralString] = {
    "signing_key": """
SELECT id, secret, sealed_with, expires_at IS NULL OR expires_at > %(now)s
FROM signing_key
WHERE id > %(after)s AND sealed_with IS DISTINCT FROM %(current)s
ORDER BY id
LIMIT %(limit)s
FOR NO KEY UPDATE
""",
    "secret": """
SELECT id, value, sealed_with, true
FROM secret
WHERE id > %(after)s AND sealed_with IS DISTINCT FROM %(current)s
ORDER BY id
LIMIT %(limit)s
FOR NO KEY UPDATE
""",
}


def lock_other_secrets(
    conn: Connection, kind: Kind, *, current: str, after: UUID = START, limit: int, now: datetime
) -> list[StoredSecret]:
    """Return a page, as ``list_secrets`` does, of those not encrypted under the key ``current``.

    Until the transaction ends nobody else changes them.
    """
    parameters = {"current": current, "after": after, "limit": limit, "now": now}
    return _secrets(conn, _LOCK[kind], parameters)


_RESEAL: dict[Kind, LiteralString] = {
    "signing_key": """
UPDATE signing_key
SET secret = %(content)s, sealed_with = %(sealed_with)s
WHERE id = %(id)s
""",
    "secret": """
UPDATE secret
SET value = %(content)s, sealed_with = %(sealed_with)s
WHERE id = %(id)s
""",
}


def reseal(conn: Connection, kind: Kind, anew: Iterable[tuple[UUID, Sealed]]) -> None:
    """Store secrets, which the transaction has locked, in another form."""
    with conn.cursor() as cursor:
        cursor.executemany(
            _RESEAL[kind],
            [
                {"id": id, "content": sealed.content, "sealed_with": sealed.sealed_with}
                for id, sealed in anew
            ],
        )


def _secrets(
    conn: Connection, statement: LiteralString, parameters: dict[str, object]
) -> list[StoredSecret]:
    return [
        StoredSecret(
            id=id, sealed=Sealed(content=bytes(content), sealed_with=sealed_with), in_use=in_use
        )
        for id, content, sealed_with, in_use in conn.execute(statement, parameters)
    ]
