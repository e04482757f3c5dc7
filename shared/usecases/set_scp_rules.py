"""Set the channel SCP rules of a table: a full replace, stored as a whole or not at all."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.scp_rules import read_rules, refuse_rules
from shared.errors import StaleVersion
from shared.queries.custom_tables import lock_table, update_definition
from shared.queries.scp_rules import list_rules, replace_rules


def set_scp_rules(
    conn: Connection,
    table_id: UUID,
    raw_rules: object,
    *,
    now: datetime,
    expected_revision: int | None = None,
) -> CustomTable:
    """Replace the rules of a live table and return it; saving what is stored changes nothing.

    Under the lock under which triggers are set, so that of two saves at one time the second sees
    the first. Raises InvalidInput with every fault (pointers begin with ``/rules``), NotFound,
    StaleVersion.
    """
    with conn.transaction():
        table = lock_table(conn, table_id)
        if expected_revision not in (None, table.revision):
            raise StaleVersion(f"table {table_id} was changed meanwhile")
        rules = read_rules(raw_rules)
        refuse_rules(table, rules)
        if rules == list_rules(conn, table):
            return table
        replace_rules(conn, table, rules)
        return update_definition(conn, replace(table, scp_ruled=bool(rules)), now=now)
