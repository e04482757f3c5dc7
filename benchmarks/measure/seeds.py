"""Tables, triggers and records in numbers: made as the product makes them, or by one statement."""

import itertools
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.columns import Column
from shared.domain.definitions import definition_hash
from shared.domain.records import CustomTable
from shared.queries.custom_tables import insert_table
from shared.queries.definitions import store_definition
from shared.queries.notifications import notify_due, notify_work
from shared.sealing import Sealer
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tick import round_of_ticks
from shared.usecases.tokens import create_tenant

COLUMNS = (
    Column(id="c1", name="title", type="text"),
    Column(id="c2", name="due", type="datetime"),
    Column(id="c3", name="amount", type="number"),
)
NOTIFY = {
    "type": "notify",
    "chatroom_id": "11111111-1111-4111-8111-111111111111",
    "message": "$row.title",
}

_serial = itertools.count(1)


def add_tenant(conn: Connection) -> UUID:
    """Make a tenant and return its id."""
    name, secret = f"tenant {next(_serial)}", bytes(32)
    return create_tenant(
        conn, name=name, key_secret=secret, sealer=Sealer(), now=server_now(conn)
    ).id


def add_table(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    columns: tuple[Column, ...] = COLUMNS,
    triggers: list[dict[str, Any]] | None = None,
) -> CustomTable:
    """Make a table with these triggers, of a tenant of its own unless one is given."""
    table = insert_table(
        conn,
        tenant_id=tenant_id or add_tenant(conn),
        channel_id=None,
        name=f"table {next(_serial)}",
        columns=columns,
        columns_made=len(columns),
        now=server_now(conn),
    )
    if triggers is None:
        return table
    return set_triggers(
        conn,
        table.id,
        triggers,
        now=server_now(conn),
        check_actions=lambda *_raw, **_rest: [],  # a benchmark has actions of its own
    )


def date_trigger(*, actions: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a trigger on the date in ``due``, as an author writes it."""
    return {
        "on": "schedule",
        "schedule": {"type": "date_column_reached", "column": "due"},
        "actions": actions or [NOTIFY],
    }


# Created a millisecond apart; the cells lie ``step`` apart from ``first`` on, at the minute.
_ADD_RECORDS = """
INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)
SELECT
    %(tenant_id)s,
    %(table_id)s,
    jsonb_build_object(
        'c1', 'record number ' || n,
        'c2', to_char(%(first)s + n * make_interval(secs => %(step)s), 'YYYY-MM-DD HH24:MI'),
        'c3', n
    ),
    %(now)s - (%(count)s - n) * interval '1 ms',
    %(now)s - (%(count)s - n) * interval '1 ms'
FROM generate_series(1, %(count)s) AS n
"""


def add_records(
    conn: Connection, table: CustomTable, count: int, *, first: datetime, step_seconds: float = 0
) -> None:
    """Insert records whose dates begin at ``first`` and lie ``step_seconds`` apart."""
    parameters = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "first": first,
        "step": step_seconds,
        "count": count,
        "now": server_now(conn),
    }
    conn.execute(_ADD_RECORDS, parameters)


# Only the index knows that they are due: whoever waits for ``at`` finds them, no walk does before.
_ADD_DUE_RECORDS = """
WITH added AS (
    INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)
    SELECT
        %(tenant_id)s,
        %(table_id)s,
        jsonb_build_object('c1', 'record number ' || n, 'c2', '2020-01-01 00:00', 'c3', n),
        %(now)s,
        %(now)s
    FROM generate_series(1, %(count)s) AS n
    RETURNING tenant_id, table_id, id
), numbered AS (
    SELECT tenant_id, table_id, id, row_number() OVER (ORDER BY id) AS n
    FROM added
)
INSERT INTO due_value (trigger_ref, record_id, tenant_id, version, fire_at)
SELECT
    state.id,
    numbered.id,
    numbered.tenant_id,
    1,
    %(at)s + numbered.n * make_interval(secs => %(step)s)
FROM numbered
JOIN trigger_state AS state ON state.table_id = numbered.table_id
RETURNING record_id, fire_at
"""


def add_due_records(
    conn: Connection, table: CustomTable, count: int, *, at: datetime, step_seconds: float = 0
) -> dict[int, datetime]:
    """Insert records that come due from ``at`` on, to the second, and tell when each does.

    The table has one date trigger, and its walk has passed all rows.
    """
    parameters = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "at": at,
        "step": step_seconds,
        "count": count,
        "now": server_now(conn),
    }
    with conn.transaction():
        added = conn.execute(_ADD_DUE_RECORDS, parameters).fetchall()
        notify_due(conn)
    return dict(added)


def catch_up(conn: Connection) -> None:
    """Let the walks of all triggers pass all rows once, so that the due index is whole."""
    for _ in round_of_ticks(conn, record_limit=10_000):
        pass


_DEFINITION = {"v": 1, "trigger": {"name": "", "actions": [NOTIFY]}, "columns": []}
_TRIGGER_ID = "trg_000000000001"

_ADD_RUNS = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, kind, record_id, identity, scheduled_for, definition_hash,
    snapshot, next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    %(tenant_id)s,
    %(table_id)s,
    %(trigger_id)s,
    'record_created',
    n,
    'record_created:' || n,
    %(at)s,
    %(definition_hash)s,
    '{"c1": "a title of some length", "c2": "2026-07-25 09:00", "c3": 12}',
    %(at)s,
    %(at)s + n * interval '1 us',
    %(at)s,
    %(at)s
FROM generate_series(1, %(count)s) AS n
"""


def add_runs(conn: Connection, table: CustomTable, count: int, *, at: datetime) -> None:
    """Insert pending runs that want to be offered from ``at`` on, a microsecond apart."""
    hash = definition_hash(_DEFINITION)
    store_definition(conn, tenant_id=table.tenant_id, hash=hash, body=_DEFINITION)
    parameters = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "trigger_id": _TRIGGER_ID,
        "definition_hash": hash,
        "at": at,
        "count": count,
    }
    conn.execute(_ADD_RUNS, parameters)


_ADD_ACTIONS = """
WITH contact AS (
    INSERT INTO line_user (tenant_id, external_id, attributes, created_at, updated_at)
    SELECT %(tenant_id)s, %(name)s || ' ' || n, '{"city": "Berlin"}', %(now)s, %(now)s
    FROM generate_series(1, %(count)s) AS n
    RETURNING id
), numbered AS (
    SELECT id, %(at)s + row_number() OVER (ORDER BY id) * make_interval(secs => %(step)s) AS due_at
    FROM contact
)
INSERT INTO scheduled_action (
    tenant_id, origin_key, execute_at, action_type, action_config, context, line_user_id,
    next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    %(tenant_id)s,
    encode(sha256(convert_to(%(name)s || ':' || id, 'UTF8')), 'hex'),
    due_at,
    %(type)s,
    jsonb_build_object('type', %(type)s::text),
    '{"event_name": "purchase", "event": {"amount": 12}}',
    id,
    due_at,
    due_at,
    %(now)s,
    %(now)s
FROM numbered
ORDER BY id
"""


def add_actions(
    conn: Connection, type: str, count: int, *, at: datetime, step_seconds: float = 0
) -> UUID:
    """Schedule actions for ``at``, to the second, each with a contact; return their new tenant."""
    parameters = {
        "tenant_id": add_tenant(conn),
        "name": f"contact {next(_serial)}",
        "type": type,
        "at": at,
        "step": step_seconds,
        "count": count,
        "now": server_now(conn),
    }
    with conn.transaction():
        conn.execute(_ADD_ACTIONS, parameters)
        notify_work(conn)
    return parameters["tenant_id"]
