"""Scheduled actions are born here, decided, and read for their execution.

What people do to them is in ``action_moves``, how they are listed in ``action_lists``, their claims
and a worker's other moves in ``claims`` and ``work``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import RowMaker, args_row, dict_row

from shared.domain.line_users import LineUser
from shared.domain.records import Record
from shared.domain.scheduled_actions import ClaimedAction, Execution, NewAction
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


# Each part is found by its key, however the statistics are: a LIMIT keeps the planner from joining
# whole tables, and from walking one by what else has to be true of its row. Documents come as text,
# to be read one by one.
_LOAD_CLAIMED = """
SELECT
    action.id,
    action.tenant_id,
    action.lease_token,
    action.attempts,
    action.starts,
    action.worker_losses,
    action.depth,
    action.open_action,
    action.action_results::text,
    action.mode,
    action.branch,
    action.execute_at,
    action.expires_at,
    action.action_type,
    action.action_config::text,
    action.source_config::text,
    action.on_expire::text,
    action.origin_key,
    action.context::text,
    action.definition_hash,
    action.execution_id,
    action.workflow_id,
    action.workflow_version,
    action.workflow_node_path,
    execution.context::text AS execution_context,
    (
        SELECT jsonb_object_agg(name, token)
        FROM tracking_link
        WHERE execution_id = action.execution_id AND name IS NOT NULL
    )::text AS links,
    action.line_user_id,
    line_user.external_id,
    line_user.display_name,
    line_user.attributes::text AS attributes,
    line_user.created_at AS line_user_created_at,
    line_user.updated_at AS line_user_updated_at,
    action.table_id,
    (
        SELECT owner.trashed_at IS NULL
        FROM custom_table AS owner
        WHERE owner.id = action.table_id
    ) AS table_lives,
    action.record_id,
    record.data::text AS data,
    record.version,
    record.created_at AS record_created_at,
    record.updated_at AS record_updated_at,
    action.tracking_link_id,
    action.run_id,
    action.event_id,
    action.rule_id,
    action.created_at
FROM scheduled_action AS action
LEFT JOIN LATERAL (
    SELECT context
    FROM workflow_execution
    WHERE id = action.execution_id
    LIMIT 1
) AS execution ON true
LEFT JOIN LATERAL (
    SELECT tenant_id, external_id, display_name, attributes, created_at, updated_at, deleted_at
    FROM line_user
    WHERE id = action.line_user_id
    LIMIT 1
) AS line_user ON line_user.tenant_id = action.tenant_id AND line_user.deleted_at IS NULL
LEFT JOIN LATERAL (
    SELECT table_id, data, version, created_at, updated_at, deleted_at
    FROM record
    WHERE id = action.record_id
    LIMIT 1
) AS record ON record.table_id = action.table_id AND record.deleted_at IS NULL
WHERE action.id = ANY(%(ids)b::bigint[])
    AND action.lease_token = %(lease_token)s
    AND action.leased_until IS NOT NULL
ORDER BY action.id
"""


def load_claimed(conn: Connection, ids: Sequence[int], *, lease_token: UUID) -> list[ClaimedAction]:
    """Return claimed actions with all that an execution needs, as it is now, by id.

    Left out is what is no longer held under this lease.
    """
    parameters = {"ids": list(ids), "lease_token": lease_token}
    with conn.cursor(row_factory=_claimed_action) as cursor:
        return cursor.execute(_LOAD_CLAIMED, parameters).fetchall()


# What stands for each document when one of them cannot be read.
_UNREAD: Mapping[str, Any] = {
    "action_results": [],
    "action_config": {},
    "source_config": None,
    "on_expire": None,
    "context": {},
    "execution_context": {},
    "links": {},
    "attributes": {},
    "data": {},
}


_OWN = tuple(
    field.name
    for field in fields(ClaimedAction)
    if field.name not in ("execution", "line_user", "record", "unreadable")
)


def _claimed_action(cursor: Cursor[Any]) -> RowMaker[ClaimedAction]:
    """Read each row by itself: one that the driver cannot read would be lost with all others."""
    make = dict_row(cursor)
    return lambda values: _readable(make(values))


def _readable(row: dict[str, Any]) -> ClaimedAction:
    unreadable = None
    try:
        row |= {name: json.loads(row[name] or "null") for name in _UNREAD}
    except (ValueError, RecursionError) as error:
        row |= _UNREAD
        unreadable = str(error)
    hash = row["definition_hash"]
    row |= {"definition_hash": None if hash is None else bytes(hash), "links": row["links"] or {}}
    return ClaimedAction(
        **{name: row[name] for name in _OWN},
        execution=_execution(row),
        line_user=_line_user(row),
        record=_record(row),
        unreadable=unreadable,
    )


def _execution(row: Mapping[str, Any]) -> Execution | None:
    if row["execution_id"] is None:
        return None
    return Execution(
        id=row["execution_id"],
        workflow_id=row["workflow_id"],
        workflow_version=row["workflow_version"],
        node_path=row["workflow_node_path"],
        context=row["execution_context"],
    )


def _line_user(row: Mapping[str, Any]) -> LineUser | None:
    if row["external_id"] is None:
        return None
    return LineUser(
        id=row["line_user_id"],
        tenant_id=row["tenant_id"],
        external_id=row["external_id"],
        display_name=row["display_name"],
        attributes=row["attributes"],
        created_at=row["line_user_created_at"],
        updated_at=row["line_user_updated_at"],
        deleted_at=None,
    )


def _record(row: Mapping[str, Any]) -> Record | None:
    if row["version"] is None:
        return None
    return Record(
        id=row["record_id"],
        table_id=row["table_id"],
        data=row["data"],
        version=row["version"],
        created_at=row["record_created_at"],
        updated_at=row["record_updated_at"],
        deleted_at=None,
    )


_DISMISS = """
UPDATE scheduled_action
SET status = 'cancelled',
    error = %(reason)s,
    open_action = NULL,
    worker_id = NULL,
    leased_until = NULL,
    finished_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE id = %(action_id)s AND status = 'processing' AND lease_token = %(lease_token)s
"""


def dismiss(conn: Connection, *, action_id: int, lease_token: UUID, reason: str) -> bool:
    """processing -> cancelled: end an action that has nothing to act on; False when fenced out."""
    parameters = {"action_id": action_id, "lease_token": lease_token, "reason": reason}
    return conn.execute(_DISMISS, parameters).rowcount == 1
