"""What a caller may reach: tables of its tenant and channel, the tenant it acts in."""

from contextlib import AbstractContextManager, nullcontext
from uuid import UUID

from psycopg.pq import TransactionStatus

from services.api.auth import TENANT_MISSING, Caller
from services.api.parameters import CHATROOM_HEADER
from services.api.routes import Call
from shared.db.tenant_session import TenantSession
from shared.domain.records import CustomTable
from shared.domain.scp_rules import Operation, allows
from shared.errors import Forbidden, InvalidInput, NotFound
from shared.queries.custom_tables import find_table, whose_table
from shared.queries.scp_rules import list_rules


def reachable_table(
    conn: TenantSession,
    caller: Caller,
    table_id: UUID,
    *,
    trashed: bool = False,
    acts: Operation | None = None,
) -> CustomTable:
    """Return the table of an address, live or (``trashed``) in the trash.

    The session of an admin who named no tenant acts in the table's from now on. Raises NotFound
    when it is absent or not in that state, Forbidden when it is another tenant's or channel's, or
    when its rules for chatrooms do not let a caller of its channel do what they are about to.
    """
    if caller.tenant_id is None and (owner := whose_table(conn, table_id)):
        conn.bind(owner.tenant_id)
    with _transaction(conn):
        table = find_table(conn, table_id)
    if table is None:
        raise _unreachable(conn, table_id, trashed=trashed)
    if (table.trashed_at is not None) != trashed:
        raise _absent(table_id)
    # Row level security has hidden it already, unless the session is of somebody else's role.
    if caller.tenant_id not in (None, table.tenant_id):
        raise _foreign()
    if caller.channel_id not in (None, table.channel_id):
        raise Forbidden("the table belongs to another channel", code="channel_forbidden")
    if acts is not None and caller.channel_id is not None and table.scp_ruled:
        _check_acting(conn, caller, table, acts)
    return table


def _check_acting(
    conn: TenantSession, caller: Caller, table: CustomTable, operation: Operation
) -> None:
    if caller.chatroom_id is None:
        raise Forbidden(
            f"the table has channel SCP rules: {CHATROOM_HEADER} must name the acting chatroom",
            code="acting_chatroom_missing",
        )
    with _transaction(conn):
        rules = list_rules(conn, table)
    if not allows(rules, operation, caller.chatroom_id):
        raise Forbidden(
            f"no channel SCP rule of the table lets this chatroom {operation} its records",
            code="scp_rules_forbid",
        )


def _transaction(conn: TenantSession) -> AbstractContextManager[object]:
    """Return the open transaction, else one of its own: outside of any a session sees no row."""
    is_idle = conn.info.transaction_status == TransactionStatus.IDLE
    return conn.transaction() if is_idle else nullcontext()


def _unreachable(conn: TenantSession, table_id: UUID, *, trashed: bool) -> NotFound | Forbidden:
    """Return why a table is not to be seen: absent, in the other state, another tenant's."""
    owner = whose_table(conn, table_id)
    if owner is None or owner.is_trashed != trashed:
        return _absent(table_id)
    return _foreign()


def _foreign() -> Forbidden:
    return Forbidden("the table belongs to another tenant", code="tenant_forbidden")


def _absent(table_id: UUID) -> NotFound:
    return NotFound(f"table {table_id} does not exist", code="table_not_found")


def table_of(call: Call, *, trashed: bool = False) -> CustomTable:
    """Return the table in the address of a call; errors as of ``reachable_table``."""
    return reachable_table(
        call.conn, call.caller, call.ids["table_id"], trashed=trashed, acts=call.acts
    )


def acting_tenant(call: Call) -> UUID:
    """Return the tenant to make something in; InvalidInput when the admin named none."""
    if call.caller.tenant_id is None:
        raise InvalidInput.of([TENANT_MISSING])
    return call.caller.tenant_id


def channel_of_new_table(call: Call) -> UUID | None:
    """Return the channel of a table to be made; raises Forbidden for another than the token's."""
    named: UUID | None = call.body["channel_id"]
    if call.caller.channel_id not in (None, named or call.caller.channel_id):
        raise Forbidden("the token belongs to another channel", code="channel_forbidden")
    return named or call.caller.channel_id
