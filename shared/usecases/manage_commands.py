"""Commands of a tenant: register, alter, delete. What is registered can be called."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.actions.input_schemas import check_input_schema
from shared.actions.urls import parse_url
from shared.domain.commands import Command
from shared.domain.faults import under
from shared.errors import Fault, InvalidInput, StaleVersion
from shared.queries import commands
from shared.usecases.tenant_limits import COMMANDS, check_room


def register_command(
    conn: Connection,
    *,
    tenant_id: UUID,
    name: str,
    url: str,
    input_schema: Mapping[str, Any],
    now: datetime,
) -> Command:
    """Register a command and return it.

    Raises InvalidInput for a URL that cannot be called or an input schema that is not taken,
    Conflict ``command_exists`` and ``commands_too_many``, NotFound ``tenant_not_found``.
    """
    _check(url, input_schema)
    with conn.transaction():
        check_room(conn, tenant_id, COMMANDS, now=now)
        return commands.insert_command(
            conn, tenant_id=tenant_id, name=name, url=url, input_schema=dict(input_schema), now=now
        )


def alter_command(
    conn: Connection,
    *,
    tenant_id: UUID,
    command_id: int,
    url: str | None,
    input_schema: Mapping[str, Any] | None,
    now: datetime,
    expected_revision: int | None,
) -> Command:
    """Change what is not None and return the command; runs to come use it as it is then.

    Raises NotFound ``command_not_found``, StaleVersion, and InvalidInput as on registering.
    """
    command = commands.get_command(conn, tenant_id, command_id)
    if expected_revision not in (None, command.revision):
        raise StaleVersion(f"command {command_id} has revision {command.revision}")
    changed = replace(
        command,
        url=command.url if url is None else url,
        input_schema=command.input_schema if input_schema is None else dict(input_schema),
    )
    _check(changed.url, changed.input_schema)
    return command if changed == command else commands.update_command(conn, changed, now=now)


def _check(url: str, input_schema: Mapping[str, Any]) -> None:
    faults = under("/input_schema", check_input_schema(input_schema))
    try:
        parse_url(url)
    except ValueError as error:
        message = f"url cannot be called: {error}"
        faults.insert(0, Fault(code="command_url_invalid", pointer="/url", message=message))
    if faults:
        raise InvalidInput.of(faults)
