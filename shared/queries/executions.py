"""Executions of workflows: started once, never changed; where they stand is told by their steps."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID, uuid5

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.executions import WorkflowExecution
from shared.domain.workflows import Workflow
from shared.errors import NotFound

# In whichever of its indexes two that start at the same time meet: the id is made of the key too.
_INSERT = """
INSERT INTO workflow_execution (
    id, tenant_id, workflow_id, workflow_version, line_user_id, context, origin_key, depth,
    started_at
)
VALUES (
    %(id)s, %(tenant_id)s, %(workflow_id)s, %(workflow_version)s, %(line_user_id)s, %(context)s,
    %(origin_key)s, %(depth)s, %(now)s
)
ON CONFLICT DO NOTHING
RETURNING id
"""


def insert_execution(
    conn: Connection,
    workflow: Workflow,
    *,
    line_user_id: int | None,
    context: Mapping[str, Any],
    origin_key: str,
    depth: int,
    now: datetime,
) -> UUID | None:
    """Insert an execution of a workflow in its version and return its id.

    None: ``origin_key`` has started one before. The id is made of that key, and with it those of
    the steps' calls: a restored database that starts it again repeats them under the same keys.
    """
    parameters = {
        "id": uuid5(workflow.tenant_id, origin_key),
        "tenant_id": workflow.tenant_id,
        "workflow_id": workflow.id,
        "workflow_version": workflow.version,
        "line_user_id": line_user_id,
        "context": Jsonb(dict(context)),
        "origin_key": origin_key,
        "depth": depth,
        "now": now,
    }
    row = conn.execute(_INSERT, parameters).fetchone()
    return None if row is None else row[0]


_FIND_ID = """
SELECT id
FROM workflow_execution
WHERE tenant_id = %(tenant_id)s AND origin_key = %(origin_key)s
"""


def find_execution_id(conn: Connection, tenant_id: UUID, origin_key: str) -> UUID | None:
    """Return the execution that the key has started, None without one."""
    parameters = {"tenant_id": tenant_id, "origin_key": origin_key}
    row = conn.execute(_FIND_ID, parameters).fetchone()
    return None if row is None else row[0]


_EXECUTIONS = """
WITH execution AS MATERIALIZED (
    SELECT *
    FROM workflow_execution
    WHERE tenant_id = %(tenant_id)s AND workflow_id = %(workflow_id)s
"""
_WITH_ID = "        AND id = %(execution_id)s\n"
_OF_CONTACT = "        AND line_user_id = %(line_user_id)s\n"
_BEFORE = "        AND (started_at, id) < (%(started_at)s, %(id)s)\n"
_NEWEST_FIRST = "    ORDER BY started_at DESC, id DESC\n    LIMIT %(limit)s\n"

# Steps are numbered in their order. The number is not sorted by as such: a plan could then walk the
# primary key of all scheduled actions backwards until it meets one of the execution.
_WITH_STEP = """
)
SELECT
    execution.id,
    execution.tenant_id,
    execution.workflow_id,
    execution.workflow_version,
    execution.line_user_id,
    line_user.external_id,
    line_user.display_name,
    {context} AS context,
    execution.depth,
    execution.started_at,
    step.workflow_node_path AS node_path,
    step.status AS step_status,
    step.next_attempt_at AS next_due_at,
    step.error AS step_error
FROM execution
LEFT JOIN line_user
    ON line_user.tenant_id = execution.tenant_id AND line_user.id = execution.line_user_id
LEFT JOIN LATERAL (
    SELECT workflow_node_path, status, next_attempt_at, error
    FROM scheduled_action
    WHERE execution_id = execution.id
    ORDER BY id + 0 DESC
    LIMIT 1
) AS step ON true
ORDER BY execution.started_at DESC, execution.id DESC
"""


# Thousands are looked at for one page, and each may have been given 65,536 characters.
_LISTED = _WITH_STEP.format(context="NULL::jsonb")


def list_executions(
    conn: Connection,
    tenant_id: UUID,
    workflow_id: int,
    *,
    line_user_id: int | None = None,
    before: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[WorkflowExecution]:
    """Return executions of a workflow, the newest first, behind (started_at, id) ``before``.

    Their ``context`` is None.

    ``line_user_id``: those of a contact alone.
    """
    parameters: dict[str, Any] = {
        "tenant_id": tenant_id,
        "workflow_id": workflow_id,
        "line_user_id": line_user_id,
        "limit": limit,
    }
    statement: LiteralString = _EXECUTIONS
    if line_user_id is not None:
        statement += _OF_CONTACT
    if before is not None:
        statement += _BEFORE
        parameters["started_at"], parameters["id"] = before
    return _executions(conn, statement + _NEWEST_FIRST + _LISTED, parameters)


_ONE = _EXECUTIONS + _WITH_ID + _WITH_STEP.format(context="execution.context")


def get_execution(
    conn: Connection, tenant_id: UUID, workflow_id: int, execution_id: UUID
) -> WorkflowExecution:
    """Return an execution of a workflow; raises NotFound ``execution_not_found``."""
    parameters = {
        "tenant_id": tenant_id,
        "workflow_id": workflow_id,
        "execution_id": execution_id,
    }
    found = _executions(conn, _ONE, parameters)
    if not found:
        message = f"execution {execution_id} does not exist"
        raise NotFound(message, code="execution_not_found")
    return found[0]


# The links stay, since people may still follow them. Without a step an execution has come to its
# end, and nobody gives it another one.
_DELETE_EXECUTIONS = """
WITH old AS MATERIALIZED (
    SELECT id
    FROM workflow_execution AS execution
    WHERE started_at < %(before)s
        AND NOT EXISTS (
            SELECT
            FROM scheduled_action
            WHERE execution_id = execution.id
        )
    ORDER BY started_at, id
    LIMIT %(limit)s
), freed AS (
    UPDATE tracking_link
    SET execution_id = NULL, workflow_node_path = NULL
    WHERE execution_id = ANY(ARRAY(SELECT id FROM old))
)
DELETE FROM workflow_execution
WHERE id = ANY(ARRAY(SELECT id FROM old))
"""


def delete_executions(conn: Connection, *, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` executions started before then whose steps are deleted already.

    Return how many went.
    """
    return conn.execute(_DELETE_EXECUTIONS, {"before": before, "limit": limit}).rowcount


def _executions(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[WorkflowExecution]:
    with conn.cursor(row_factory=class_row(WorkflowExecution)) as cursor:
        return cursor.execute(statement, parameters).fetchall()
