"""Scheduled actions are born here, and decided.

What people do to them is in ``action_moves``, how they are listed in ``action_lists``; their claims
are in ``claims``, what a worker is given after one in ``claimed_actions``, its moves in ``work``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import args_row

from shared.domain.scheduled_actions import NewAction
from shared.domain.work import Reference
from shared.queries.arrays import prepare

# Whichever unique key refuses it, it is there: as itself, or as the step that its node had. Sorted,
# since two batches that enter the same keys in different orders deadlock.
_INSERT_ACTIONS = """
INSERT INTO scheduled_action (
    tenant_id, origin_key, mode, execute_at, expires_at, branch, action_type, action_config,
    source_config, on_expire, context, definition_hash, execution_id, workflow_id, workflow_version,
    workflow_node_path, line_user_id, table_id, record_id, tracking_link_id, run_id, event_id,
    rule_id, depth, urgent, next_attempt_at, announce_at, created_at, updated_at
)
SELECT
    tenant_id, origin_key, mode, execute_at, expires_at, branch, action_type, action_config,
    source_config, on_expire, context, decode(definition_hash, 'hex'), execution_id, workflow_id,
    workflow_version, workflow_node_path, line_user_id, table_id, record_id, tracking_link_id,
    run_id, event_id, rule_id, depth, urgent, execute_at, execute_at, %(now)s, %(now)s
FROM jsonb_to_recordset(%(actions)s::jsonb) AS new (
    tenant_id uuid, origin_key text, mode text, execute_at timestamptz, expires_at timestamptz,
    branch text, action_type text, action_config jsonb, source_config jsonb, on_expire jsonb,
    context jsonb, definition_hash text, execution_id uuid, workflow_id bigint,
    workflow_version int, workflow_node_path text, line_user_id bigint, table_id uuid,
    record_id bigint, tracking_link_id bigint, run_id bigint, event_id bigint, rule_id bigint,
    depth smallint, urgent boolean
)
ORDER BY tenant_id, origin_key
ON CONFLICT DO NOTHING
RETURNING id, lease_token AS token
"""

_COLUMNS = tuple(field.name for field in fields(NewAction))


def insert_actions(
    conn: Connection, actions: Sequence[NewAction], *, now: datetime
) -> list[Reference]:
    """-> pending: record actions; return references to those that were not recorded before.

    What has its origin key, or a step of its execution at its node, is left as it is. They are to
    be announced at their ``execute_at``: notify.
    """
    if not actions:
        return []
    rows = [{name: getattr(action, name) for name in _COLUMNS} for action in actions]
    parameters = {"actions": json.dumps(rows, default=_plain), "now": now}
    with conn.cursor(row_factory=args_row(Reference)) as cursor:
        return cursor.execute(_INSERT_ACTIONS, parameters).fetchall()


def _plain(value: object) -> object:
    """Return as JSON what the columns of a new action hold beside it."""
    match value:
        case datetime():
            return value.isoformat()
        case bytes():
            return value.hex()
        case Mapping():
            return dict(value)
        case UUID():
            return str(value)
    raise TypeError(f"{type(value)} is not for a scheduled action")


_FIND_ACTION_ID = """
SELECT id
FROM scheduled_action
WHERE tenant_id = %(tenant_id)s AND origin_key = %(origin_key)s
"""


def find_action_id(conn: Connection, tenant_id: UUID, origin_key: str) -> int | None:
    """Return the id of the action that was recorded under this key, or None."""
    parameters = {"tenant_id": tenant_id, "origin_key": origin_key}
    row = conn.execute(_FIND_ACTION_ID, parameters).fetchone()
    return row[0] if row else None


# Steps are numbered in their order: the next one is recorded when the one before it ends.
_HAS_LATER_STEP = """
SELECT EXISTS (
    SELECT
    FROM scheduled_action
    WHERE execution_id = %(execution_id)s AND id > %(action_id)s
)
"""


def has_later_step(conn: Connection, execution_id: UUID, action_id: int) -> bool:
    """Tell whether an execution went on behind one of its steps already."""
    parameters = {"execution_id": execution_id, "action_id": action_id}
    row = conn.execute(_HAS_LATER_STEP, parameters).fetchone()
    assert row is not None
    found: bool = row[0]
    return found


# A statement of its own, begun after the claim has committed: its snapshot shows every click that
# was committed before the deadline. The claim's own snapshot is older than the clock that it reads,
# and would miss a click in between. Who clicked in time is told by the click, not by the clock.
_DECIDE_BRANCHES = """
WITH held AS MATERIALIZED (
    SELECT wait.id
    FROM (
        SELECT id, token
        FROM unnest(%(ids)b::bigint[], %(tokens)b::uuid[]) AS named (id, token)
        ORDER BY id
    ) AS lease
    CROSS JOIN LATERAL (
        SELECT id
        FROM scheduled_action
        WHERE id = lease.id
            AND lease_token = lease.token
            AND leased_until IS NOT NULL
            AND mode = 'waitForTracking'
            AND branch IS NULL
        FOR UPDATE
    ) AS wait
)
UPDATE scheduled_action AS wait
SET branch = CASE
        WHEN EXISTS (
            SELECT
            FROM tracking_click AS click
            WHERE click.link_id = wait.tracking_link_id AND click.first_clicked_at < wait.expires_at
        ) THEN 'clicked'
        WHEN wait.expires_at <= clock_timestamp() THEN 'expired'
    END,
    updated_at = clock_timestamp()
WHERE wait.id = ANY(ARRAY(SELECT id FROM held))
"""


def decide_branches(conn: Connection, leases: Sequence[tuple[int, UUID]]) -> None:
    """processing -> processing: give waits (id, lease token) their branch, where none is decided.

    Clicked if a click before the deadline is stored, else expired. To be called when the claim has
    committed, outside any transaction. What is no wait, or held no longer, stays as it is.
    """
    parameters = {
        "ids": [action_id for action_id, _ in leases],
        "tokens": [token for _, token in leases],
    }
    conn.execute(_DECIDE_BRANCHES, parameters, prepare=prepare(leases))
