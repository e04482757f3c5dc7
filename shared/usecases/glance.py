"""A glance at many tables, without their locks: which of them want nothing of this tick?

In most rounds most tables do not. What is not sure is left to ``scan_table``, and what happens to a
table between the glance and its note is met by the next one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.queries.custom_tables import list_tables_by_id
from shared.queries.due_tables import claim_tables_to_scan
from shared.queries.trigger_states import list_states_of_tables
from shared.usecases import fire_clocks, walk
from shared.usecases.scan_table import Order, Scan
from shared.usecases.scheduled_triggers import Ready, scanned_triggers, schedule_triggers


def pass_by(
    conn: Connection, tables: Sequence[tuple[UUID, datetime]], order: Order
) -> dict[UUID, Scan]:
    """Note as scanned those tables in which a scan would change nothing; return their scans by id.

    ``tables`` are ids with the time of the last scan. One that another tick has, or has scanned
    since, is not noted. No transaction may be open.
    """
    scans = dict(_quiet(conn, [table_id for table_id, _ in tables], order))
    quiet = [(table_id, scanned_at) for table_id, scanned_at in tables if table_id in scans]
    return {
        table_id: scans[table_id] for table_id in claim_tables_to_scan(conn, quiet, now=order.now)
    }


def _quiet(
    conn: Connection, table_ids: Sequence[UUID], order: Order
) -> Iterator[tuple[UUID, Scan]]:
    try:
        tables = list_tables_by_id(conn, table_ids)
        states = list_states_of_tables(conn, table_ids)
    except Exception:  # one cannot be read: which one is found out, and told, table by table
        if conn.closed:
            raise
        return
    for table in tables:
        met = schedule_triggers(table, [state for state in states if state.table_id == table.id])
        if all(_is_quiet(conn, ready, order) for ready in scanned_triggers(met)):
            yield table.id, Scan(has_schedules=bool(met), complete=True)


def _is_quiet(conn: Connection, ready: Ready, order: Order) -> bool:
    """Whether there is nothing to do for the trigger; a failure is left to who has the lock."""
    try:
        if ready.is_clock:
            return fire_clocks.is_quiet(conn, ready, now=order.now)
        return walk.is_quiet(conn, ready, limit=order.record_limit, now=order.now)
    except Exception:
        if conn.closed:
            raise
        return False
