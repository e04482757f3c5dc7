"""Runs are born here, those of schedule triggers together with their ledger rows.

A run that the caller publishes after its commit is born announced, which saves an update; any
other one is found by ``announcements``. Frozen definitions are stored before their runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from psycopg import Connection, Rollback
from psycopg.rows import args_row

from shared.domain.triggers import TriggerState
from shared.domain.work import Reference
from shared.evaluator.date_trigger import Due
from shared.queries.arrays import numbers_text

EventKind = Literal["record_created", "record_updated", "record_deleted"]

_ANNOUNCED_FOR = timedelta(seconds=60)

_INSERT_EVENT_RUNS = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, kind, record_id, identity, scheduled_for, definition_hash,
    snapshot, depth, urgent, next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    record.tenant_id,
    record.table_id,
    %(trigger_id)s,
    %(kind)s,
    record.id,
    %(kind)s || ':' || record.version,
    %(now)s,
    %(definition_hash)s,
    record.data,
    %(depth)s,
    true,
    %(now)s,
    %(now)s,
    %(now)s,
    %(now)s
FROM record
WHERE record.id = ANY(%(record_ids)b::bigint[])
ORDER BY record.id
RETURNING id
"""


def insert_event_runs(
    conn: Connection,
    record_ids: Sequence[int],
    *,
    trigger_id: str,
    kind: EventKind,
    definition_hash: bytes,
    depth: int,
    now: datetime,
) -> list[int]:
    """-> pending: insert the runs of a trigger for records that this transaction has written.

    The snapshot is the row as written, the identity the event and the row's version. They are to
    be announced: notify. Return their ids.
    """
    parameters = {
        "record_ids": list(record_ids),
        "trigger_id": trigger_id,
        "kind": kind,
        "definition_hash": definition_hash,
        "depth": depth,
        "now": now,
    }
    return [id for (id,) in conn.execute(_INSERT_EVENT_RUNS, parameters)]


# The snapshot is the value that was judged: a record written meanwhile has another version and is
# judged anew. Each is found by its key (LIMIT keeps the planner from joining whole tables). Sorted,
# since two ticks that enter the same identities in different orders deadlock.
_INSERT_DATE_RUNS = """
WITH judged AS (
    SELECT record_id, version, identity, fire_at
    FROM unnest(
        %(record_ids)s::bigint[],
        %(versions)s::int[],
        %(identities)b::text[],
        %(fire_ats)b::timestamptz[]
    ) AS judged (record_id, version, identity, fire_at)
), same AS MATERIALIZED (
    SELECT judged.record_id, judged.identity, judged.fire_at, record.data
    FROM judged
    CROSS JOIN LATERAL (
        SELECT data
        FROM record
        WHERE id = judged.record_id AND version = judged.version AND deleted_at IS NULL
        LIMIT 1
    ) AS record
), once AS (
    INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
    SELECT %(trigger_ref)s, record_id, identity, true, %(now)s
    FROM same
    ORDER BY record_id, identity
    ON CONFLICT DO NOTHING
    RETURNING record_id, identity
)
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, trigger_ref, kind, record_id, identity, scheduled_for,
    definition_hash, snapshot, announcements, next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    %(tenant_id)s,
    %(table_id)s,
    %(trigger_id)s,
    %(trigger_ref)s,
    'date_column_reached',
    same.record_id,
    same.identity,
    same.fire_at,
    %(definition_hash)s,
    same.data,
    %(announcements)s,
    %(now)s,
    %(announce_at)s,
    %(now)s,
    %(now)s
FROM once
JOIN same USING (record_id, identity)
ORDER BY same.fire_at, same.record_id
RETURNING id, lease_token AS token
"""


def insert_date_runs(
    conn: Connection,
    state: TriggerState,
    due: Sequence[Due],
    *,
    definition_hash: bytes,
    announced: bool,
    now: datetime,
) -> list[Reference]:
    """-> pending: insert ledger rows and runs for due records; return references to the runs.

    Left out is what was consumed before, and a record that was written or deleted since it was
    judged. ``announced``: the caller publishes the references after its commit.
    """
    if not due:
        return []
    parameters = {
        "tenant_id": state.tenant_id,
        "table_id": state.table_id,
        "trigger_id": state.trigger_id,
        "trigger_ref": state.ref,
        "record_ids": numbers_text(row.record_id for row in due),
        "versions": numbers_text(row.version for row in due),
        "identities": [row.identity for row in due],
        "fire_ats": [row.fire_at for row in due],
        "definition_hash": definition_hash,
        "announcements": int(announced),
        "announce_at": now + _ANNOUNCED_FOR if announced else now,
        "now": now,
    }
    with conn.cursor(row_factory=args_row(Reference)) as cursor:
        # Not prepared: a plan for arrays of any length is made for ten rows.
        return cursor.execute(_INSERT_DATE_RUNS, parameters, prepare=False).fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A due window of a clock trigger: its ``identity`` is the instant, ``key`` only a label."""

    at: datetime
    identity: str
    key: str


_INSERT_CLOCK_RUN = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, trigger_ref, kind, identity, window_key, scheduled_for,
    definition_hash, announcements, next_attempt_at, announce_at, created_at, updated_at
)
VALUES (
    %(tenant_id)s, %(table_id)s, %(trigger_id)s, %(trigger_ref)s, %(kind)s, %(identity)s,
    %(window_key)s, %(window_at)s, %(definition_hash)s, %(announcements)s, %(now)s,
    %(announce_at)s, %(now)s, %(now)s
)
ON CONFLICT (trigger_ref)
    WHERE status IN ('pending', 'running') AND kind IN ('interval', 'daily', 'cron')
    DO NOTHING
RETURNING id, lease_token AS token
"""

_CONSUME_WINDOW = """
INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
VALUES (%(trigger_ref)s, 0, %(identity)s, true, %(now)s)
ON CONFLICT DO NOTHING
"""


def insert_clock_run(
    conn: Connection,
    state: TriggerState,
    window: Window,
    *,
    definition_hash: bytes,
    announced: bool,
    now: datetime,
) -> Reference | Literal["fenced", "consumed"]:
    """-> pending: insert the run of a window and its ledger row, or nothing, and say why.

    ``fenced``: a run of the trigger is active. ``consumed``: the window is in the ledger.
    ``announced`` as in ``insert_date_runs``.
    """
    parameters = {
        "tenant_id": state.tenant_id,
        "table_id": state.table_id,
        "trigger_id": state.trigger_id,
        "trigger_ref": state.ref,
        "kind": state.kind,
        "identity": window.identity,
        "window_key": window.key,
        "window_at": window.at,
        "definition_hash": definition_hash,
        "announcements": int(announced),
        "announce_at": now + _ANNOUNCED_FOR if announced else now,
        "now": now,
    }
    with conn.transaction() as savepoint, conn.cursor(row_factory=args_row(Reference)) as cursor:
        reference = cursor.execute(_INSERT_CLOCK_RUN, parameters).fetchone()
        if reference is None:
            return "fenced"
        if conn.execute(_CONSUME_WINDOW, parameters).rowcount == 1:
            return reference
        raise Rollback(savepoint)
    return "consumed"


_HAS_ACTIVE_RUN = """
SELECT
FROM trigger_run
WHERE trigger_ref = %(trigger_ref)s
    AND status IN ('pending', 'running')
    AND kind IN ('interval', 'daily', 'cron')
"""


def has_active_run(conn: Connection, trigger_ref: int) -> bool:
    """Whether a run of this clock trigger is pending or running."""
    return conn.execute(_HAS_ACTIVE_RUN, {"trigger_ref": trigger_ref}).fetchone() is not None
