"""Contacts of a tenant, by id and by what the tenant's own systems call them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.columns import size_of
from shared.domain.line_users import LineUser
from shared.errors import Conflict, NotFound
from shared.queries.pages import Page, id_of, read_page

_SELECT = """
SELECT id, tenant_id, external_id, display_name, attributes, created_at, updated_at, deleted_at
FROM line_user
WHERE tenant_id = %(tenant_id)s AND deleted_at IS NULL
"""
_BY_ID = _SELECT + "    AND id = %(line_user_id)s\n"


def find_line_user(conn: Connection, tenant_id: UUID, line_user_id: int) -> LineUser | None:
    """Return a contact of the tenant, None when there is none or it was deleted."""
    found = _line_users(conn, _BY_ID, {"tenant_id": tenant_id, "line_user_id": line_user_id})
    return found[0] if found else None


def get_line_user(conn: Connection, tenant_id: UUID, line_user_id: int) -> LineUser:
    """Return a contact of the tenant; raises NotFound ``line_user_not_found``."""
    found = find_line_user(conn, tenant_id, line_user_id)
    if found is None:
        raise _not_found(line_user_id)
    return found


_LOCK = _BY_ID + "FOR NO KEY UPDATE\n"


def lock_line_user(conn: Connection, tenant_id: UUID, line_user_id: int) -> LineUser:
    """Lock a contact against other writers and return it; raises as ``get_line_user``."""
    found = _line_users(conn, _LOCK, {"tenant_id": tenant_id, "line_user_id": line_user_id})
    if not found:
        raise _not_found(line_user_id)
    return found[0]


_PAGE = """
    AND id > %(after)s
ORDER BY id
LIMIT %(limit)s
"""
_LIST = _SELECT + _PAGE
_LIST_BY_EXTERNAL_ID = _SELECT + "    AND external_id = %(external_id)s\n" + _PAGE


def list_line_users(
    conn: Connection,
    tenant_id: UUID,
    *,
    external_id: str | None = None,
    after: int | None = None,
    limit: int,
) -> Page[LineUser]:
    """Return a page of the tenant's contacts by id, behind ``after``; short when they are large.

    ``external_id``: only the contact that is called so, if there is one.
    """
    statement = _LIST if external_id is None else _LIST_BY_EXTERNAL_ID

    def read(after: int, limit: int) -> list[LineUser]:
        parameters = {
            "tenant_id": tenant_id,
            "external_id": external_id,
            "after": after,
            "limit": limit,
        }
        return _line_users(conn, statement, parameters)

    return read_page(
        read,
        after=after or 0,
        limit=limit,
        size=lambda line_user: size_of(line_user.attributes),
        place=id_of,
    )


_INSERT = """
INSERT INTO line_user (
    tenant_id, external_id, display_name, attributes, created_at, updated_at
)
VALUES (
    %(tenant_id)s, %(external_id)s, %(display_name)s, %(attributes)s, %(now)s, %(now)s
)
ON CONFLICT (tenant_id, external_id) WHERE deleted_at IS NULL DO NOTHING
RETURNING
    id, tenant_id, external_id, display_name, attributes, created_at, updated_at, deleted_at
"""


def insert_line_user(
    conn: Connection,
    *,
    tenant_id: UUID,
    external_id: str,
    display_name: str | None,
    attributes: Mapping[str, Any],
    now: datetime,
) -> LineUser:
    """Insert a contact and return it; raises Conflict ``line_user_exists`` for an id in use."""
    parameters = {
        "tenant_id": tenant_id,
        "external_id": external_id,
        "display_name": display_name,
        "attributes": Jsonb(dict(attributes)),
        "now": now,
    }
    found = _line_users(conn, _INSERT, parameters)
    if not found:
        raise _exists()
    return found[0]


_UPDATE = """
UPDATE line_user
SET external_id = %(external_id)s,
    display_name = %(display_name)s,
    attributes = %(attributes)s,
    updated_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND id = %(line_user_id)s AND deleted_at IS NULL
RETURNING
    id, tenant_id, external_id, display_name, attributes, created_at, updated_at, deleted_at
"""


def update_line_user(conn: Connection, line_user: LineUser, *, now: datetime) -> LineUser:
    """Store an edited contact and return it.

    Raises NotFound ``line_user_not_found``, and Conflict ``line_user_exists`` for an external id
    that another has.
    """
    parameters = {
        "tenant_id": line_user.tenant_id,
        "line_user_id": line_user.id,
        "external_id": line_user.external_id,
        "display_name": line_user.display_name,
        "attributes": Jsonb(line_user.attributes),
        "now": now,
    }
    try:
        with conn.transaction():
            found = _line_users(conn, _UPDATE, parameters)
    except UniqueViolation as error:
        raise _exists() from error
    if not found:
        raise _not_found(line_user.id)
    return found[0]


_DELETE = """
UPDATE line_user
SET deleted_at = %(now)s, updated_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND id = %(line_user_id)s AND deleted_at IS NULL
"""


def delete_line_user(
    conn: Connection, tenant_id: UUID, line_user_id: int, *, now: datetime
) -> None:
    """Delete a contact softly; raises NotFound ``line_user_not_found``."""
    parameters = {"tenant_id": tenant_id, "line_user_id": line_user_id, "now": now}
    if conn.execute(_DELETE, parameters).rowcount == 0:
        raise _not_found(line_user_id)


def _exists() -> Conflict:
    return Conflict("a contact has this external_id already", code="line_user_exists")


def _not_found(line_user_id: int) -> NotFound:
    return NotFound(f"contact {line_user_id} does not exist", code="line_user_not_found")


def _line_users(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[LineUser]:
    with conn.cursor(row_factory=class_row(LineUser)) as cursor:
        return cursor.execute(statement, parameters).fetchall()
