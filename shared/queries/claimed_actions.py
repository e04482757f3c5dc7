"""What a worker is given of the scheduled actions that it claimed: all that an execution needs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import RowMaker, dict_row

from shared.domain.line_users import LineUser
from shared.domain.records import Record
from shared.domain.scheduled_actions import ClaimedAction, Execution
from shared.domain.strict_json import Json

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
    action.edits,
    action.context::text,
    action.definition_hash,
    action.execution_id,
    action.workflow_id,
    action.workflow_version,
    action.workflow_node_path,
    execution.context::text AS execution_context,
    execution.started_at AS execution_started_at,
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
    SELECT context, started_at
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
        row |= {name: _document(name, row[name]) for name in _UNREAD}
    except (ValueError, RecursionError) as error:
        row |= _UNREAD
        unreadable = str(error)
    hash = row["definition_hash"]
    row |= {
        "definition_hash": None if hash is None else bytes(hash),
        "links": row["links"] or row["context"].get("links") or {},
    }
    return ClaimedAction(
        **{name: row[name] for name in _OWN},
        execution=_execution(row),
        line_user=_line_user(row),
        record=_record(row),
        unreadable=unreadable,
    )


def _document(name: str, text: str | None) -> Json:
    """Return what a column holds. Raises ValueError, too, for a value of another form than it has.

    What reads it further on would stumble, and take the whole batch along.
    """
    if text is None:
        return None
    value = json.loads(text)
    form = list if name in ("action_results", "on_expire") else dict
    if not isinstance(value, form):
        raise ValueError(f"{name} holds no {'list' if form is list else 'object'}")
    return value


def _execution(row: Mapping[str, Any]) -> Execution | None:
    if row["execution_id"] is None:
        return None
    return Execution(
        id=row["execution_id"],
        workflow_id=row["workflow_id"],
        workflow_version=row["workflow_version"],
        node_path=row["workflow_node_path"],
        context=row["execution_context"],
        started_at=row["execution_started_at"],
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
