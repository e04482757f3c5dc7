"""Secrets of a tenant: set, delete. Nobody but the worker reads one."""

from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.domain.faults import cut
from shared.domain.secrets import TenantSecret, check_secret
from shared.errors import Conflict, NotFound
from shared.queries import secrets
from shared.queries.tenants import lock_tenant
from shared.sealing import Sealer
from shared.usecases.tenant_limits import SECRETS, check_room

_TOLD = 3


def set_secret(
    conn: Connection, *, tenant_id: UUID, name: str, value: str, sealer: Sealer, now: datetime
) -> tuple[TenantSecret, bool]:
    """Store a value under a name; return what may be told of it, and whether the name is new.

    Calls from now on have the new value, those of pending work too. Raises InvalidInput
    ``secret_invalid``, Conflict ``secrets_too_many``, NotFound ``tenant_not_found``.
    """
    check_secret(value)
    sealed = sealer.seal(value.encode())
    with conn.transaction():
        lock_tenant(conn, tenant_id)
        replaced = secrets.replace_secret(
            conn, tenant_id=tenant_id, name=name, value=sealed, now=now
        )
        if replaced is not None:
            return replaced, False
        check_room(conn, tenant_id, SECRETS, now=now)
        made = secrets.insert_secret(conn, tenant_id=tenant_id, name=name, value=sealed, now=now)
        return made, True


def delete_secret(conn: Connection, *, tenant_id: UUID, name: str) -> None:
    """Delete a secret that no live definition names; pending work that names it will fail.

    Raises NotFound ``secret_not_found``, Conflict ``secret_in_use``.
    """
    with conn.transaction():
        # Nobody saves a definition that names it, before this has committed.
        lock_tenant(conn, tenant_id)
        if secrets.find_secret(conn, tenant_id, name) is None:
            raise NotFound("the tenant has no secret of this name", code="secret_not_found")
        naming = secrets.list_naming(conn, tenant_id, name, limit=_TOLD + 1)
        if naming:
            told = [f"{_WHERE[kind]} '{cut(named)}'" for kind, named in naming[:_TOLD]]
            more = " and others" if len(naming) > _TOLD else ""
            message = f"secret '{name}' is named by {', '.join(told)}{more}"
            raise Conflict(message, code="secret_in_use")
        secrets.delete_secret(conn, tenant_id, name)


_WHERE = {
    "trigger": "triggers of table",
    "trigger_rule": "trigger rule",
    "workflow": "workflow",
}
