"""What a caller may reach: tables of its tenant and channel, the tenant it acts in."""

from uuid import UUID

from psycopg import Connection

from services.api.auth import TENANT_MISSING, Caller
from services.api.routes import Call
from shared.domain.records import CustomTable
from shared.errors import Forbidden, InvalidInput, NotFound
from shared.queries.custom_tables import find_table


def reachable_table(
    conn: Connection, caller: Caller, table_id: UUID, *, trashed: bool = False
) -> CustomTable:
    """Return the table of an address, live or (``trashed``) in the trash.

    Raises NotFound when it is absent or not in that state, Forbidden when it is another tenant's or
    channel's.
    """
    table = find_table(conn, table_id)
    if table is None or (table.trashed_at is not None) != trashed:
        raise NotFound(f"table {table_id} does not exist", code="table_not_found")
    if caller.tenant_id not in (None, table.tenant_id):
        raise Forbidden("the table belongs to another tenant", code="tenant_forbidden")
    if caller.channel_id not in (None, table.channel_id):
        raise Forbidden("the table belongs to another channel", code="channel_forbidden")
    return table


def table_of(call: Call, *, trashed: bool = False) -> CustomTable:
    """Return the table in the address of a call; errors as of ``reachable_table``."""
    return reachable_table(call.conn, call.caller, call.ids["table_id"], trashed=trashed)


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
