"""Contacts of a tenant: register, alter, delete. Their attributes are the tenant's own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.line_users import LineUser, attribute_faults
from shared.errors import InvalidInput
from shared.queries import line_users
from shared.queries.tenants import get_tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUserChange:
    """What changes of a contact; ``external_id`` None: it stays.

    ``attributes`` replaces those that it names, None takes one away; the others stay.
    """

    external_id: str | None
    has_display_name: bool
    display_name: str | None
    attributes: Mapping[str, Any]

    def applied_to(self, line_user: LineUser) -> LineUser:
        """Return the contact with the changes."""
        attributes = {**line_user.attributes, **self.attributes}
        return replace(
            line_user,
            external_id=self.external_id or line_user.external_id,
            display_name=self.display_name if self.has_display_name else line_user.display_name,
            attributes={name: value for name, value in attributes.items() if value is not None},
        )


def register_line_user(
    conn: Connection,
    *,
    tenant_id: UUID,
    external_id: str,
    display_name: str | None,
    attributes: Mapping[str, Any],
    now: datetime,
) -> LineUser:
    """Register a contact and return it.

    Raises InvalidInput for attributes that are not taken, Conflict ``line_user_exists``, NotFound
    ``tenant_not_found``.
    """
    _check(attributes)
    get_tenant(conn, tenant_id)
    return line_users.insert_line_user(
        conn,
        tenant_id=tenant_id,
        external_id=external_id,
        display_name=display_name,
        attributes={name: value for name, value in attributes.items() if value is not None},
        now=now,
    )


def alter_line_user(
    conn: Connection, *, tenant_id: UUID, line_user_id: int, change: LineUserChange, now: datetime
) -> LineUser:
    """Change a contact and return it; what is due later sees it as it is then.

    Two changes of different attributes at the same time both count. Raises NotFound
    ``line_user_not_found``, and as registering does.
    """
    with conn.transaction():
        line_user = line_users.lock_line_user(conn, tenant_id, line_user_id)
        changed = change.applied_to(line_user)
        _check(changed.attributes)
        if changed == line_user:
            return line_user
        return line_users.update_line_user(conn, changed, now=now)


def _check(attributes: Mapping[str, Any]) -> None:
    faults = attribute_faults(attributes)
    if faults:
        raise InvalidInput.of(faults)
