"""Backlogs: overdue values that a save told to consume or to let drip, and what became of them.

Whoever changes one holds its table's row. ``fresh_value`` has the records whose value was written
since the save; ``held_value`` points at those that wait in a drip.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.domain.on_existing import HELPING, Backlog
from shared.domain.triggers import TriggerState
from shared.evaluator.date_trigger import Due
from shared.queries.arrays import numbers_text, prepare

_BEGIN_BACKLOG = """
INSERT INTO backlog (trigger_ref, tenant_id, mode, before_at, per_minute)
VALUES (%(trigger_ref)s, %(tenant_id)s, %(mode)s, %(before)s, %(per_minute)s)
"""


def begin_backlog(conn: Connection, trigger_ref: int, backlog: Backlog, *, tenant_id: UUID) -> None:
    """Note what is to be done with the overdue values of a trigger that has no backlog."""
    parameters = {
        "trigger_ref": trigger_ref,
        "tenant_id": tenant_id,
        "mode": backlog.mode,
        "before": backlog.before,
        "per_minute": backlog.per_minute,
    }
    conn.execute(_BEGIN_BACKLOG, parameters)


_END_BACKLOG = "DELETE FROM backlog WHERE trigger_ref = %(trigger_ref)s"
_FORGET_FRESH = "DELETE FROM fresh_value WHERE trigger_ref = %(trigger_ref)s"
_FORGET_HELD = "DELETE FROM held_value WHERE trigger_ref = %(trigger_ref)s"


def end_backlog(conn: Connection, trigger_ref: int) -> None:
    """Forget the backlog of a trigger, if there is one: its values are like any others."""
    for statement in (_END_BACKLOG, _FORGET_FRESH, _FORGET_HELD):
        conn.execute(statement, {"trigger_ref": trigger_ref})


_NOTE_HELPING = """
UPDATE backlog
SET fired_at = %(fired_at)s, fired = %(fired)s, look_at = %(look_at)s
WHERE trigger_ref = %(trigger_ref)s
"""


def note_helping(conn: Connection, trigger_ref: int, backlog: Backlog) -> None:
    """Note how far a drip has come, and when the due pass is to look again."""
    parameters = {
        "trigger_ref": trigger_ref,
        "fired_at": backlog.fired_at,
        "fired": backlog.fired,
        "look_at": backlog.look_at,
    }
    conn.execute(_NOTE_HELPING, parameters)


_CONSUME_VALUES = """
INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)
SELECT
    %(trigger_ref)s, record_id, identity, false,
    greatest(%(now)s::timestamptz, %(before)s::timestamptz)
FROM unnest(%(record_ids)s::bigint[], %(identities)b::text[]) AS overdue (record_id, identity)
WHERE NOT EXISTS (
    SELECT
    FROM fresh_value
    WHERE fresh_value.trigger_ref = %(trigger_ref)s
        AND fresh_value.before_at = %(before)s
        AND fresh_value.record_id = overdue.record_id
)
    AND EXISTS (
        SELECT
        FROM backlog
        WHERE backlog.trigger_ref = %(trigger_ref)s AND backlog.before_at = %(before)s
    )
ORDER BY record_id, identity
ON CONFLICT DO NOTHING
"""


def consume_values(
    conn: Connection, state: TriggerState, values: Sequence[Due], *, now: datetime
) -> None:
    """Enter values of the backlog in the ledger, without runs, in the order of the records.

    Left out is the record whose value was written since the save: whoever wrote it has entered the
    one before. So is everything when the backlog has ended meanwhile: then all of it was entered.
    """
    assert state.backlog is not None
    parameters = {
        "trigger_ref": state.ref,
        "record_ids": numbers_text(value.record_id for value in values),
        "identities": [value.identity for value in values],
        "before": state.backlog.before,
        "now": now,
    }
    conn.execute(_CONSUME_VALUES, parameters, prepare=prepare(values))


_MARK_FRESH = """
INSERT INTO fresh_value (trigger_ref, before_at, record_id, tenant_id)
SELECT backlog.trigger_ref, backlog.before_at, written.record_id, backlog.tenant_id
FROM backlog
CROSS JOIN unnest(%(record_ids)s::bigint[]) AS written (record_id)
WHERE backlog.trigger_ref = %(trigger_ref)s AND backlog.before_at = %(before)s
ORDER BY written.record_id
ON CONFLICT DO NOTHING
"""


def mark_fresh(conn: Connection, state: TriggerState, record_ids: Sequence[int]) -> None:
    """Note that the values of these records were written after the save."""
    assert state.backlog is not None
    parameters = {
        "trigger_ref": state.ref,
        "before": state.backlog.before,
        "record_ids": numbers_text(record_ids),
    }
    conn.execute(_MARK_FRESH, parameters)


# In one statement, and so of one moment: who ends a backlog forgets which values were fresh.
_FRESH_RECORDS = """
SELECT coalesce(array_agg(fresh_value.record_id) FILTER (
    WHERE fresh_value.record_id IS NOT NULL
), '{}')
FROM backlog
LEFT JOIN fresh_value
    ON fresh_value.trigger_ref = backlog.trigger_ref
    AND fresh_value.before_at = backlog.before_at
    AND fresh_value.record_id = ANY(%(record_ids)s::bigint[])
WHERE backlog.trigger_ref = %(trigger_ref)s AND backlog.before_at = %(before)s
GROUP BY backlog.trigger_ref
"""


def fresh_records(
    conn: Connection, state: TriggerState, record_ids: Sequence[int]
) -> set[int] | None:
    """Return which of these records have a value that was written after the save.

    None when the backlog has ended meanwhile.
    """
    assert state.backlog is not None
    parameters = {
        "trigger_ref": state.ref,
        "before": state.backlog.before,
        "record_ids": numbers_text(record_ids),
    }
    row = conn.execute(_FRESH_RECORDS, parameters, prepare=prepare(record_ids)).fetchone()
    return None if row is None else set(row[0])


_HOLD_VALUES = """
INSERT INTO held_value (trigger_ref, record_id, tenant_id, fire_at)
SELECT %(trigger_ref)s, record_id, %(tenant_id)s, fire_at
FROM unnest(%(record_ids)s::bigint[], %(fire_ats)b::timestamptz[]) AS overdue (record_id, fire_at)
ORDER BY record_id
ON CONFLICT DO NOTHING
"""
# Only where no look is planned: the next helping has its time already.
_LOOK_SOON = """
UPDATE backlog
SET look_at = greatest(%(now)s, fired_at + %(helping)s)
WHERE trigger_ref = %(trigger_ref)s AND look_at IS NULL
"""


def hold_values(
    conn: Connection, state: TriggerState, values: Sequence[Due], *, now: datetime
) -> None:
    """Let values of the backlog wait for their turn in the drip."""
    parameters = {
        "trigger_ref": state.ref,
        "tenant_id": state.tenant_id,
        "record_ids": numbers_text(value.record_id for value in values),
        "fire_ats": [value.fire_at for value in values],
    }
    conn.execute(_HOLD_VALUES, parameters, prepare=prepare(values))
    assert state.backlog is not None
    if state.backlog.look_at is None:
        conn.execute(_LOOK_SOON, {"trigger_ref": state.ref, "now": now, "helping": HELPING})


_TAKE_HELD = """
WITH oldest AS MATERIALIZED (
    SELECT record_id
    FROM held_value
    WHERE trigger_ref = %(trigger_ref)s
    ORDER BY fire_at, record_id
    LIMIT %(limit)s
)
DELETE FROM held_value
WHERE trigger_ref = %(trigger_ref)s AND record_id = ANY(ARRAY(SELECT record_id FROM oldest))
RETURNING record_id
"""


def take_held(conn: Connection, trigger_ref: int, *, limit: int) -> list[int]:
    """Delete and return up to ``limit`` records that wait, those whose dates are oldest."""
    parameters = {"trigger_ref": trigger_ref, "limit": limit}
    return [record_id for (record_id,) in conn.execute(_TAKE_HELD, parameters)]


_POSTPONE_DRIPS = """
UPDATE backlog
SET look_at = %(until)s
FROM trigger_state AS state
WHERE state.id = backlog.trigger_ref
    AND state.table_id = %(table_id)s
    AND backlog.look_at <= %(now)s
"""


def postpone_drips(conn: Connection, table_id: UUID, *, until: datetime, now: datetime) -> None:
    """Let the due pass leave the drips of a table alone until then, after a failure."""
    conn.execute(_POSTPONE_DRIPS, {"table_id": table_id, "until": until, "now": now})
