"""Scheduled actions as people see them: one, pages of them by a filter, and how many there are."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.columns import size_of
from shared.domain.runs import STALE_SECONDS
from shared.domain.scheduled_actions import ActionStatus, ScheduledAction
from shared.errors import NotFound
from shared.queries.pages import Page, read_page


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilter:
    """Which actions of a tenant; None does not restrict.

    The bounds are on ``execute_at``: ``from_at`` belongs to the range, ``to_at`` does not.
    """

    status: ActionStatus | None = None
    line_user_id: int | None = None
    table_id: UUID | None = None
    record_id: int | None = None
    workflow_id: int | None = None
    execution_id: UUID | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def is_by_time(self) -> bool:
        """Tell whether the actions come in the order of their time, not the newest first."""
        return self.from_at is not None or self.to_at is not None


_COLUMNS = """
SELECT
    id,
    tenant_id,
    mode,
    status,
    branch,
    execute_at,
    expires_at,
    action_type,
    action_config,
    source_config,
    on_expire,
    execution_id,
    workflow_id,
    workflow_version,
    workflow_node_path,
    line_user_id,
    table_id,
    record_id,
    tracking_link_id,
    run_id,
    event_id,
    rule_id,
    depth,
    edits,
    retry_count,
    attempts,
    starts,
    worker_losses,
    next_attempt_at,
    leased_until,
    action_results,
    error,
    created_at,
    updated_at,
    finished_at
FROM scheduled_action
"""

_BY_ID = """
WHERE id = %(action_id)s AND tenant_id = %(tenant_id)s
"""

_GET_ACTION = _COLUMNS + _BY_ID


def get_action(conn: Connection, tenant_id: UUID, action_id: int) -> ScheduledAction:
    """Return an action of the tenant; raises NotFound ``scheduled_action_not_found``."""
    with conn.cursor(row_factory=class_row(ScheduledAction)) as cursor:
        parameters = {"tenant_id": tenant_id, "action_id": action_id}
        found = cursor.execute(_GET_ACTION, parameters).fetchone()
    if found is None:
        message = f"scheduled action {action_id} does not exist"
        raise NotFound(message, code="scheduled_action_not_found")
    return found


_FIND_FROZEN = """
SELECT definition.body
FROM scheduled_action AS action
JOIN definition
    ON definition.tenant_id = action.tenant_id AND definition.hash = action.definition_hash
WHERE action.id = %(action_id)s AND action.tenant_id = %(tenant_id)s
"""


def find_frozen(conn: Connection, tenant_id: UUID, action_id: int) -> dict[str, Any] | None:
    """Return the frozen definition of the trigger that scheduled an action; None: it was none."""
    parameters = {"tenant_id": tenant_id, "action_id": action_id}
    row = conn.execute(_FIND_FROZEN, parameters).fetchone()
    return row[0] if row else None


# One clause for each filter given, and never prepared: a plan for optional filters, or for a tenant
# of average size, could use none of the indexes.
_OF_TENANT = """
WHERE tenant_id = %(tenant_id)s
"""
_CLAUSES: tuple[tuple[str, LiteralString], ...] = (
    ("status", "    AND status = %(status)s\n"),
    ("line_user_id", "    AND line_user_id = %(line_user_id)s\n"),
    ("table_id", "    AND table_id = %(table_id)s\n"),
    ("record_id", "    AND record_id = %(record_id)s\n"),
    ("workflow_id", "    AND workflow_id = %(workflow_id)s\n"),
    ("execution_id", "    AND execution_id = %(execution_id)s\n"),
    ("from_at", "    AND execute_at >= %(from_at)s\n"),
    ("to_at", "    AND execute_at < %(to_at)s\n"),
)


def clauses(filter: ActionFilter) -> LiteralString:
    """Return the WHERE of a tenant's actions that the filter finds."""
    given = (clause for name, clause in _CLAUSES if getattr(filter, name) is not None)
    return _OF_TENANT + "".join(given)


def parameters(tenant_id: UUID, filter: ActionFilter) -> dict[str, Any]:
    """Return the parameters of ``clauses``."""
    return {"tenant_id": tenant_id} | {name: getattr(filter, name) for name, _ in _CLAUSES}


Place = tuple[datetime, int]
"""Where an action stands in a listing: its ``execute_at`` and its id."""

_OLDER = """
    AND id < %(after_id)s
"""
_NEWEST_FIRST = """
ORDER BY id DESC
LIMIT %(limit)s
"""
_LATER = """
    AND (execute_at, id) > (%(after_at)s, %(after_id)s)
"""
_BY_TIME = """
ORDER BY execute_at, id
LIMIT %(limit)s
"""


_BATCH = 100


def list_actions(
    conn: Connection,
    tenant_id: UUID,
    filter: ActionFilter,
    *,
    after: Place | None = None,
    limit: int,
) -> Page[ScheduledAction]:
    """Return up to ``limit`` actions of the tenant behind a place.

    The newest first; with bounds on ``execute_at`` in its order. Fewer when their rows are large:
    one call reads 8 million characters at most.
    """

    def read(after: Place | None, limit: int) -> list[ScheduledAction]:
        return _next_actions(conn, tenant_id, filter, after=after, limit=limit)

    return read_page(read, after=after, limit=limit, size=_size, place=place, batch_size=_BATCH)


def place(action: ScheduledAction) -> Place:
    """Return where an action stands in a listing."""
    return action.execute_at, action.id


def _size(action: ScheduledAction) -> int:
    return size_of(action.action_config) + sum(map(size_of, action.on_expire or ()))


def _next_actions(
    conn: Connection, tenant_id: UUID, filter: ActionFilter, *, after: Place | None, limit: int
) -> list[ScheduledAction]:
    after_at, after_id = after or (None, None)
    values = {"after_at": after_at, "after_id": after_id, "limit": limit}
    statement = _statement(filter, is_first=after is None)
    with conn.cursor(row_factory=class_row(ScheduledAction)) as cursor:
        cursor.execute(statement, parameters(tenant_id, filter) | values, prepare=False)
        return cursor.fetchall()


def _statement(filter: ActionFilter, *, is_first: bool) -> LiteralString:
    behind, order = (_LATER, _BY_TIME) if filter.is_by_time else (_OLDER, _NEWEST_FIRST)
    return _COLUMNS + clauses(filter) + ("" if is_first else behind) + order


_COUNT = """
SELECT count(*)
FROM scheduled_action
"""


def count_actions(conn: Connection, tenant_id: UUID, filter: ActionFilter) -> int:
    """Return how many actions of the tenant the filter finds, exactly: a scan of what it finds."""
    values = parameters(tenant_id, filter)
    row = conn.execute(_COUNT + clauses(filter), values, prepare=False).fetchone()
    return row[0] if row else 0


# Tenant by tenant: no index has the failed ones of all.
_COUNT_FAILED = """
SELECT coalesce(sum(failed.number), 0)::bigint
FROM tenant
CROSS JOIN LATERAL (
    SELECT count(*) AS number
    FROM scheduled_action
    WHERE tenant_id = tenant.id AND status = 'failed'
) AS failed
"""


def count_failed(conn: Connection) -> int:
    """Return how many actions of all tenants stand as failed."""
    row = conn.execute(_COUNT_FAILED).fetchone()
    return row[0] if row else 0


_STALE_AFTER = timedelta(seconds=STALE_SECONDS)

_COUNT_STALE = """
SELECT count(*)
FROM scheduled_action
WHERE status = 'processing' AND updated_at < %(stale_before)s
"""


def count_stale(conn: Connection, *, now: datetime) -> int:
    """Return how many held actions of all tenants nobody has touched for 300 s."""
    row = conn.execute(_COUNT_STALE, {"stale_before": now - _STALE_AFTER}).fetchone()
    return row[0] if row else 0
