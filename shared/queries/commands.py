"""Commands of a tenant, by name and by id."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.commands import Command
from shared.errors import Conflict, NotFound, StaleVersion

_SELECT = """
SELECT id, tenant_id, name, url, input_schema, revision, created_at, updated_at
FROM command
WHERE tenant_id = %(tenant_id)s
"""
_BY_NAME = _SELECT + "    AND name = %(name)s\n"


def find_command(conn: Connection, tenant_id: UUID, name: str) -> Command | None:
    """Return the tenant's command of this name, None when there is none."""
    found = _commands(conn, _BY_NAME, {"tenant_id": tenant_id, "name": name})
    return found[0] if found else None


_BY_NAMES = _SELECT + "    AND name = ANY(%(names)s)\nORDER BY id\n"


def list_commands_by_name(conn: Connection, tenant_id: UUID, names: Sequence[str]) -> list[Command]:
    """Return those of the tenant's commands that have one of these names."""
    return _commands(conn, _BY_NAMES, {"tenant_id": tenant_id, "names": list(names)})


_BY_ID = _SELECT + "    AND id = %(command_id)s\n"


def get_command(conn: Connection, tenant_id: UUID, command_id: int) -> Command:
    """Return a command of the tenant; raises NotFound ``command_not_found``."""
    found = _commands(conn, _BY_ID, {"tenant_id": tenant_id, "command_id": command_id})
    if not found:
        raise _not_found(command_id)
    return found[0]


_LIST = (
    _SELECT
    + """
    AND id > %(after)s
ORDER BY id
LIMIT %(limit)s
"""
)


def list_commands(
    conn: Connection, tenant_id: UUID, *, after: int | None = None, limit: int
) -> list[Command]:
    """Return a page of the tenant's commands by id, behind ``after``."""
    return _commands(conn, _LIST, {"tenant_id": tenant_id, "after": after or 0, "limit": limit})


_INSERT = """
INSERT INTO command (tenant_id, name, url, input_schema, created_at, updated_at)
VALUES (%(tenant_id)s, %(name)s, %(url)s, %(input_schema)s, %(now)s, %(now)s)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING id, tenant_id, name, url, input_schema, revision, created_at, updated_at
"""


def insert_command(
    conn: Connection,
    *,
    tenant_id: UUID,
    name: str,
    url: str,
    input_schema: dict[str, Any],
    now: datetime,
) -> Command:
    """Insert a command and return it; raises Conflict ``command_exists`` for a name in use."""
    parameters = {
        "tenant_id": tenant_id,
        "name": name,
        "url": url,
        "input_schema": Jsonb(input_schema),
        "now": now,
    }
    found = _commands(conn, _INSERT, parameters)
    if not found:
        raise Conflict("a command has this name already", code="command_exists")
    return found[0]


_UPDATE = """
UPDATE command
SET url = %(url)s, input_schema = %(input_schema)s, revision = revision + 1, updated_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND id = %(command_id)s AND revision = %(revision)s
RETURNING id, tenant_id, name, url, input_schema, revision, created_at, updated_at
"""


def update_command(conn: Connection, command: Command, *, now: datetime) -> Command:
    """Store URL and schema of an edited command and return it with its new revision.

    ``command.revision`` is the one the edit is based on; raises StaleVersion when it is no longer
    the present one.
    """
    parameters = {
        "tenant_id": command.tenant_id,
        "command_id": command.id,
        "revision": command.revision,
        "url": command.url,
        "input_schema": Jsonb(command.input_schema),
        "now": now,
    }
    found = _commands(conn, _UPDATE, parameters)
    if not found:
        raise StaleVersion(f"command {command.id} was changed meanwhile")
    return found[0]


_DELETE = "DELETE FROM command WHERE tenant_id = %(tenant_id)s AND id = %(command_id)s"


def delete_command(conn: Connection, tenant_id: UUID, command_id: int) -> None:
    """Delete a command; raises NotFound ``command_not_found``."""
    parameters = {"tenant_id": tenant_id, "command_id": command_id}
    if conn.execute(_DELETE, parameters).rowcount == 0:
        raise _not_found(command_id)


def _not_found(command_id: int) -> NotFound:
    return NotFound(f"command {command_id} does not exist", code="command_not_found")


def _commands(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[Command]:
    with conn.cursor(row_factory=class_row(Command)) as cursor:
        return cursor.execute(statement, parameters).fetchall()
