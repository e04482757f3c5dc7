"""Workflows of a tenant: make, replace, start. Every version is valid, and none changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.actions.definition_checks import check_workflow
from shared.domain.events import data_faults
from shared.domain.executions import WorkflowExecution
from shared.domain.faults import under
from shared.domain.line_users import LineUser
from shared.domain.strict_json import Json
from shared.domain.workflows import Workflow, actions_in
from shared.effects.delays import after_schedule
from shared.effects.workflow_steps import start_execution
from shared.errors import Conflict, Fault, InvalidInput, StaleVersion
from shared.queries import workflows
from shared.queries.executions import get_execution
from shared.queries.line_users import find_line_user
from shared.queries.tenants import lock_tenant
from shared.tracking.click_store import ClickStore
from shared.usecases.align_states import is_same_json
from shared.usecases.link_checks import unknown_links
from shared.usecases.lookups import TenantLookup
from shared.usecases.tenant_limits import WaitingLimit

MAX_WORKFLOWS = 500
"""Workflows of one tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedByHand:
    """An execution that was started, and the link for which its first step waits, if it does."""

    execution: WorkflowExecution
    link_id: int | None


def make_workflow(
    conn: Connection, *, tenant_id: UUID, name: str, nodes: Json, now: datetime
) -> Workflow:
    """Make a workflow and return its first version.

    Raises InvalidInput with every fault, Conflict ``workflow_exists`` and ``workflows_too_many``,
    NotFound ``tenant_not_found``.
    """
    with conn.transaction():
        # Two saves at the same time could close a circle that neither of them sees.
        lock_tenant(conn, tenant_id)
        _check(conn, tenant_id, name, nodes)
        if workflows.count_workflows(conn, tenant_id) >= MAX_WORKFLOWS:
            message = f"there are {MAX_WORKFLOWS} workflows, which is the limit"
            raise Conflict(message, code="workflows_too_many")
        return workflows.insert_workflow(conn, tenant_id=tenant_id, name=name, nodes=nodes, now=now)


def replace_workflow(
    conn: Connection,
    *,
    tenant_id: UUID,
    workflow_id: int,
    name: str,
    nodes: Json,
    now: datetime,
    expected_version: int | None,
) -> Workflow:
    """Give a workflow its next version and return that; executions finish on theirs.

    Saving what is stored makes no version. Raises NotFound ``workflow_not_found``, StaleVersion,
    and as making one does.
    """
    with conn.transaction():
        lock_tenant(conn, tenant_id)
        workflow = workflows.get_workflow(conn, tenant_id, workflow_id)
        if expected_version not in (None, workflow.version):
            raise StaleVersion(f"workflow {workflow_id} has version {workflow.version}")
        _check(conn, tenant_id, name, nodes)
        if is_same_json([name, nodes], [workflow.name, workflow.nodes]):
            return workflow
        return workflows.update_workflow(conn, replace(workflow, name=name, nodes=nodes), now=now)


def start_by_hand(
    conn: Connection,
    *,
    tenant_id: UUID,
    workflow_id: int,
    line_user_id: int | None,
    context: Mapping[str, Json],
    key: UUID,
    clicks: ClickStore,
    waiting: WaitingLimit,
    now: datetime,
) -> StartedByHand:
    """Start an execution of a workflow's newest version.

    ``key`` is its own alone. When that has committed, ``settle`` has to follow. Raises NotFound
    ``workflow_not_found``, InvalidInput for a contact that the tenant does not have
    (``line_user_unknown``) and a context that is too large, Conflict
    ``scheduled_actions_too_many``.
    """
    workflow = workflows.get_workflow(conn, tenant_id, workflow_id)
    faults = data_faults(context, "/context")
    if faults:
        raise InvalidInput.of(faults)
    waiting.check(conn, tenant_id)
    started = start_execution(
        conn,
        workflow,
        line_user=_contact(conn, tenant_id, line_user_id),
        context=context,
        origin_key=f"hand:{key}",
        depth=0,
        clicks=clicks,
        now=now,
    )
    execution = get_execution(conn, tenant_id, workflow_id, started.execution_id)
    return StartedByHand(execution=execution, link_id=started.link_id)


def settle(conn: Connection, started: StartedByHand, *, clicks: ClickStore) -> None:
    """Unlock the first step if it was clicked meanwhile; in no transaction, behind the start."""
    if started.link_id is not None:
        tenant_id = started.execution.tenant_id
        after_schedule(conn, tenant_id=tenant_id, link_id=started.link_id, clicks=clicks)


def _contact(conn: Connection, tenant_id: UUID, line_user_id: int | None) -> LineUser | None:
    if line_user_id is None:
        return None
    line_user = find_line_user(conn, tenant_id, line_user_id)
    if line_user is None:
        message = f"line_user_id names no contact of this tenant: {line_user_id}"
        fault = Fault(code="line_user_unknown", pointer="/line_user_id", message=message)
        raise InvalidInput.of([fault])
    return line_user


def _check(conn: Connection, tenant_id: UUID, name: str, nodes: Json) -> None:
    lookup = TenantLookup(conn=conn, tenant_id=tenant_id)
    faults = check_workflow(nodes, name=name, lookup=lookup)
    faults = faults or under("/nodes", unknown_links(conn, tenant_id, actions_in(nodes)))
    if faults:
        raise InvalidInput.of(faults)
