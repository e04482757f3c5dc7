"""Rows of staged changes with defaults, beside those of ``builders_db``."""

import itertools

from psycopg.types.json import Jsonb

from shared.queries.custom_tables import find_table
from tests.builders_db import LONG_AGO, insert_records, insert_row, insert_table

_serial = itertools.count(1)

BY_STATUS = {
    "pending": {},
    "approved": {"reviewed_at": LONG_AGO, "announce_at": LONG_AGO},
    "rejected": {"reviewed_at": LONG_AGO, "finished_at": LONG_AGO},
    "applied": {"reviewed_at": LONG_AGO, "finished_at": LONG_AGO},
    "failed": {"reviewed_at": LONG_AGO, "finished_at": LONG_AGO, "error": "it failed"},
}


def insert_change(conn, table=None, *, status="pending", **more) -> int:
    """Insert a change of a create, due since long when it is approved, and return its id.

    ``table`` may be its id, or None for one of its own.
    """
    if table is None:
        table = insert_table(conn, approval="required")
    elif isinstance(table, str):
        table = find_table(conn, table)
    values = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "operation": "create",
        "proposed": Jsonb({"c1": "proposed"}),
        "origin_key": f"origin {next(_serial)}",
        "run_id": 1,
        "status": status,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    if status == "applied" and "record_id" not in more:
        made = insert_records(conn, table, [{}], origin_key=values["origin_key"])
        values["record_id"] = made[0].id
    return insert_row(conn, "staged_change", **values | BY_STATUS[status] | more)


def insert_update(conn, table, record, *, cells=None, **more) -> int:
    """Insert a change that is to update a record as it is given, and return its id."""
    cells = cells or {"c1": "proposed"}
    base = {column: record.data.get(column) for column in cells}
    values = {"operation": "update", "record_id": record.id, "base_version": record.version}
    values |= {"base": Jsonb(base), "proposed": Jsonb(cells)}
    return insert_change(conn, table, **values | more)


def insert_delete(conn, table, record, **more) -> int:
    """Insert a change that is to delete a record as it is given, and return its id."""
    values = {"operation": "delete", "record_id": record.id, "base_version": record.version}
    values |= {"base": Jsonb(record.data), "proposed": None}
    return insert_change(conn, table, **values | more)
