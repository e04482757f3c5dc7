"""Rows with defaults, for tests with a database: a test shows only what it is about.

Every builder takes further columns of its table as keywords.
"""

import itertools
import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Jsonb

from shared.domain.columns import Column
from shared.domain.records import CustomTable, Record
from shared.domain.triggers import TriggerState
from shared.queries.custom_tables import find_table
from shared.queries.trigger_states import list_states_by_ref

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 7, 25, 9, 0, tzinfo=UTC)
FAR_OFF = datetime(2100, 1, 1, tzinfo=UTC)

COLUMNS = (
    Column(id="c1", name="title", type="text"),
    Column(id="c2", name="due", type="datetime"),
    Column(id="c3", name="amount", type="number"),
)

_serial = itertools.count(1)


def insert_row(conn, relation, **values):
    """Insert one row and return its id."""
    names = SQL(", ").join(map(Identifier, values))
    places = SQL(", ").join(map(Placeholder, values))
    statement = SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING id").format(
        Identifier(relation), names, places
    )
    return conn.execute(statement, values).fetchone()[0]


def insert_tenant(conn, **columns):
    """Insert a tenant and return its id."""
    return insert_row(
        conn, "tenant", **{"name": f"tenant {next(_serial)}", "created_at": LONG_AGO} | columns
    )


def insert_table(conn, *, tenant_id=None, columns=COLUMNS, triggers=None, **more):
    """Insert a table, of a tenant of its own unless one is given, and return it."""
    values = {
        "tenant_id": tenant_id or insert_tenant(conn),
        "name": "orders",
        "columns": Jsonb([column.to_json() for column in columns]),
        "columns_made": len(columns),
        "triggers": None if triggers is None else Jsonb(triggers),
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return find_table(conn, insert_row(conn, "custom_table", **values | more))


def insert_records(conn, table, rows, *, created_at=LONG_AGO, **more):
    """Insert records, one a minute from ``created_at`` on, and return them."""
    values = {"tenant_id": table.tenant_id, "table_id": table.id} | more
    ids = []
    for number, data in enumerate(rows):
        at = created_at + timedelta(minutes=number)
        times = {"created_at": at, "updated_at": at}
        ids.append(insert_row(conn, "record", data=Jsonb(data), **times | values))
    with conn.cursor(row_factory=class_row(Record)) as cursor:
        return cursor.execute(
            "SELECT id, table_id, data, version, created_at, updated_at, deleted_at FROM record"
            " WHERE id = ANY(%s) ORDER BY id",
            [ids],
        ).fetchall()


def trigger_id(number=None):
    """Return a trigger id, another one at every call."""
    return f"trg_{next(_serial) if number is None else number:012x}"


def insert_state(conn, table, *, kind="date_column_reached", schedule=None, **more) -> TriggerState:
    """Insert the state of a schedule trigger and return it."""
    values = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "trigger_id": trigger_id(),
        "kind": kind,
        "schedule": Jsonb(schedule or _SCHEDULES[kind]),
        "anchor_at": LONG_AGO,
    }
    ref = insert_row(conn, "trigger_state", **values | more)
    return list_states_by_ref(conn, [ref])[0]


_SCHEDULES = {
    "date_column_reached": {"type": "date_column_reached", "column": "due"},
    "interval": {"type": "interval", "every_seconds": 3600},
    "daily": {"type": "daily", "at": "09:00"},
    "cron": {"type": "cron", "expression": "0 9 * * *"},
}


def insert_definition(conn, tenant_id, body=None) -> bytes:
    """Store a frozen definition and return its hash."""
    body = body or {"v": 1, "trigger": {"actions": []}, "columns": []}
    hash = sha256(json.dumps(body, sort_keys=True).encode()).digest()
    conn.execute(
        "INSERT INTO definition (tenant_id, hash, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        [tenant_id, hash, Jsonb(body)],
    )
    return hash


_HELD = {"leased_until": FAR_OFF, "worker_id": 1, "attempts": 1, "starts": 1}
BY_STATUS = {
    "pending": {"announce_at": LONG_AGO, "next_attempt_at": LONG_AGO},
    "running": _HELD,
    "processing": _HELD,
    "done": {"finished_at": LONG_AGO},
    "failed": {"finished_at": LONG_AGO, "error": "it failed"},
    "cancelled": {"finished_at": LONG_AGO, "error": "cancelled"},
}
"""What else a row of either kind of work has in a status."""


def insert_run(conn, table: CustomTable | None = None, *, status="pending", **more) -> int:
    """Insert a run, due since long when it is pending, and return its id."""
    table = table or insert_table(conn)
    values = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "trigger_id": trigger_id(1),
        "kind": "record_created",
        "identity": f"record_created:{next(_serial)}",
        "scheduled_for": LONG_AGO,
        "definition_hash": insert_definition(conn, table.tenant_id),
        "status": status,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return insert_row(conn, "trigger_run", **values | BY_STATUS[status] | more)


def insert_runs(conn, table: CustomTable | None = None, *, count, **more) -> list[int]:
    """Insert that many such runs and return their ids."""
    table = table or insert_table(conn)
    return [insert_run(conn, table, **more) for _ in range(count)]


def insert_worker(conn, **columns) -> int:
    """Insert a worker that started long ago and return its id; it does not live."""
    values = {
        "host": "host",
        "release": "0",
        "roles": ["trigger-worker", "action-worker"],
        "threads": 4,
        "started_at": LONG_AGO,
    }
    return insert_row(conn, "worker", **values | columns)


def row_of(conn, relation, id):
    """Return a row as a dictionary."""
    statement = SQL("SELECT to_jsonb(one) FROM {} AS one WHERE id = %s").format(
        Identifier(relation)
    )
    return conn.execute(statement, [id]).fetchone()[0]


def cells_of(conn, relation, id, *columns):
    """Return the named columns of a row, times as times."""
    statement = SQL("SELECT {} FROM {} WHERE id = %s").format(
        SQL(", ").join(map(Identifier, columns)), Identifier(relation)
    )
    return conn.execute(statement, [id]).fetchone()


def statuses_of(conn, relation):
    """Return the status of every row of a table, in order of their ids."""
    statement = SQL("SELECT status FROM {} ORDER BY id").format(Identifier(relation))
    return [status for (status,) in conn.execute(statement)]


def update_all(conn, relation, **columns):
    """Set columns of every row of a table."""
    pairs = SQL(", ").join(
        SQL("{} = {}").format(Identifier(name), Placeholder(name)) for name in columns
    )
    conn.execute(SQL("UPDATE {} SET {}").format(Identifier(relation), pairs), columns)


def delete_all(conn, relation):
    """Delete every row of a table."""
    conn.execute(SQL("DELETE FROM {}").format(Identifier(relation)))
