"""What the database has to say of a run, in the checker's words."""

import hashlib
import json
import re
from datetime import timedelta

import psycopg

from shared.db.clock import server_now
from shared.domain.runs import idempotency_key
from shared.domain.triggers import EVENTS
from shared.queries.invariants import list_violations
from tests.chaos.evidence import Effect, Ended, Evidence
from tests.chaos.moves import list_moves

_MAX_RETRIES = 10
_TOLD = 5
# A window may have begun just now.
_MOMENTS = 10.0
_TAG = re.compile(r"[a-z]+-\d{6}")
_MESSAGES = "SELECT message, extract(epoch FROM created_at)::float FROM chat_message"
_RECORDS = """
SELECT owner.name, record.data ->> (owner.columns -> 0 ->> 'id'),
    extract(epoch FROM record.created_at)::float
FROM record
JOIN custom_table AS owner ON owner.id = record.table_id
WHERE owner.name IN ('made', 'proposed', 'slots')
"""
_ENDED = """
SELECT 'trigger_run', id, coalesce(snapshot::text, ''), status, error
FROM trigger_run
WHERE status IN ('failed', 'cancelled')
UNION ALL
SELECT 'scheduled_action', id, action_config::text || context::text, status, error
FROM scheduled_action
WHERE status IN ('failed', 'cancelled')
UNION ALL
SELECT 'staged_change', id, proposed::text, status, coalesce(error, '')
FROM staged_change
WHERE status IN ('failed', 'rejected')
"""
_OPEN = """
WITH before AS (SELECT clock_timestamp() - make_interval(secs => %s) AS at)
SELECT 'trigger_run ' || id FROM trigger_run, before
WHERE created_at <= before.at AND status IN ('pending', 'running')
UNION ALL
SELECT 'scheduled_action ' || id FROM scheduled_action, before
WHERE created_at <= before.at
    AND (status = 'processing' OR (status = 'pending' AND execute_at <= before.at))
UNION ALL
SELECT 'staged_change ' || id FROM staged_change, before
WHERE created_at <= before.at AND status IN ('pending', 'approved')
"""
_WAITS = """
SELECT context::text, extract(epoch FROM expires_at)::float
FROM scheduled_action
WHERE mode = 'waitForTracking'
"""
_RUNS = """
SELECT id, tenant_id, table_id, trigger_id, record_id, identity, kind, scheduled_for
FROM trigger_run
"""
_ACTIONS = "SELECT id, tenant_id, origin_key FROM scheduled_action"
_CLOCK_RUNS = """
SELECT count(*) FROM trigger_run WHERE kind IN ('interval', 'cron') AND status = 'done'
"""
_COUNTS = """
SELECT 'runs ' || status, count(*) FROM trigger_run GROUP BY 1
UNION ALL
SELECT 'actions ' || status, count(*) FROM scheduled_action GROUP BY 1
UNION ALL
SELECT 'changes ' || status, count(*) FROM staged_change GROUP BY 1
UNION ALL
SELECT 'messages', count(*) FROM chat_message
ORDER BY 1
"""
_POSITIONS = 3


def counts(conn):
    """Return how much there is of everything, as a line of the timeline."""
    return ", ".join(f"{what} {count}" for what, count in conn.execute(_COUNTS))


def open_rows(conn, *, seconds=0.0):
    """Return what has been there, and due or held, for so long and has not ended."""
    return [row for (row,) in conn.execute(_OPEN, [seconds])]


def violations(conn, *, settled_seconds=None):
    """Return what contradicts the product's own invariants.

    ``settled_seconds``: what was due so long ago should have happened by now; None: nothing should.
    """
    seconds = 86_400 * 3650 if settled_seconds is None else settled_seconds
    found = list_violations(
        conn,
        settled_before=server_now(conn) - timedelta(seconds=seconds),
        limit=_TOLD,
        max_retries=_MAX_RETRIES,
    )
    return [f"{one.invariant} {one.promise}: {one.found}" for one in found]


def effects(conn):
    """Return every message and record that an identity has caused."""
    found = []
    for message, at in conn.execute(_MESSAGES):
        sort, tag, *told = message.split(" ")
        found.append(Effect(sort=sort, tag=tag, at=at, told=" ".join(told)))
    found += [Effect(sort=sort, tag=tag, at=at) for sort, tag, at in conn.execute(_RECORDS)]
    return found


def gather(conn, *, workload, receiver, strikes, world, during):
    """Return all evidence of a run that is over; ``during``: violations that were found before.

    ``conn`` is in a transaction with one snapshot: clocks go on meanwhile.
    """
    found = effects(conn)
    windows = sum(one.sort == "window" for one in found)
    (clock_runs,) = conn.execute(_CLOCK_RUNS).fetchone()
    wrong = [] if windows == clock_runs else [f"{clock_runs} windows, {windows} messages of them"]
    rows = list_rows(conn)
    strange = sorted({call.tag for call in receiver.calls if call.key not in rows})
    wrong += [f"{tag}: called under a key that no row has" for tag in strange]
    expires = {_tag(text): at for text, at in conn.execute(_WAITS)}
    return Evidence(
        expected=workload.expected,
        effects=found,
        calls=list(receiver.calls),
        moves=list_moves(conn),
        ended=_list_ended(conn),
        struck=strikes.struck,
        rows=rows,
        workers=world.workers(),
        clicked_in_time={
            tag for tag, at in workload.clicked_at.items() if at < expires.get(tag, 0.0)
        },
        violations=[*during, *wrong],
        open_rows=open_rows(conn, seconds=_MOMENTS),
        stale_seconds=float(world.installation.environment["LEASE_SECONDS"]),
        round_seconds=float(world.installation.environment["ROUND_SECONDS"]),
    )


def _list_ended(conn):
    return [
        Ended(table=table, id=id, tag=_tag(text), status=status, error=error)
        for table, id, text, status, error in conn.execute(_ENDED)
    ]


def _tag(text):
    found = _TAG.search(text)
    return found[0] if found else None


def list_rows(conn):
    """Return by the key of its calls the row that makes them."""
    rows = {}
    for id, tenant, table, trigger, record, identity, kind, at in conn.execute(_RUNS):
        for position in range(_POSITIONS):
            key = idempotency_key(
                tenant_id=tenant,
                table_id=table,
                trigger_id=trigger,
                record_id=record,
                identity=identity,
                written_at=at if kind in EVENTS else None,
                position=position,
            )
            rows[key] = ("trigger_run", id)
    for id, tenant, origin_key in conn.execute(_ACTIONS):
        parts = json.dumps(["scheduled_action", str(tenant), origin_key])
        rows[hashlib.sha256(parts.encode()).hexdigest()] = ("scheduled_action", id)
    return rows


def ask(postgres, question, *arguments, **named):
    """Ask in a session of its own; None when the database is away."""
    try:
        with postgres.session() as conn:
            return question(conn, *arguments, **named)
    except psycopg.Error:
        return None
