"""Executions of workflows: started, and led from one step to the next (spec 3 §6).

A step is a scheduled action at its node: the one that waits *is* the suspended execution. Its end
and the next step are one transaction, and a node has one step at most, so that steps neither get
lost nor run twice.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from shared.domain.line_users import LineUser
from shared.domain.scheduled_actions import Branch, ClaimedAction, NewAction
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.domain.workflows import Workflow, branch_step, first_step, next_step, wait_nodes
from shared.effects.delays import record
from shared.effects.record_writes import MAX_DEPTH, ChainTooDeep
from shared.effects.step_actions import Way, step_at
from shared.errors import NotFound
from shared.observability import tracing
from shared.observability.trace_ids import Row
from shared.queries.executions import find_execution_id, insert_execution
from shared.queries.line_users import find_line_user
from shared.queries.tracking import insert_link
from shared.queries.workflows import read_nodes
from shared.tracking.click_store import ClickStore


class Started(NamedTuple):
    """An execution that was started; ``link_id`` is the link that its first step waits for."""

    execution_id: UUID
    link_id: int | None = None


def start_execution(
    conn: Connection,
    workflow: Workflow,
    *,
    line_user: LineUser | None,
    context: Mapping[str, Any],
    origin_key: str,
    depth: int,
    clicks: ClickStore,
    now: datetime,
    make_secret: Callable[[int], bytes] = secrets.token_bytes,
) -> Started:
    """Start an execution, once for its origin key.

    It has a link for each wait and its first step; ``context`` is what conditions and tokens know
    as the event. One transaction; when that has committed, ``after_schedule`` has to follow for a
    ``link_id``. Raises ChainTooDeep, and NotFound ``line_user_not_found`` for a contact that is
    deleted meanwhile.
    """
    if depth > MAX_DEPTH:
        message = f"a chain of workflows is cut at depth {MAX_DEPTH}: this would start one more"
        raise ChainTooDeep(message)
    with conn.transaction():
        execution_id = insert_execution(
            conn,
            workflow,
            line_user_id=None if line_user is None else line_user.id,
            context=context,
            origin_key=origin_key,
            depth=depth,
            now=now,
        )
        if execution_id is None:
            return _started_before(conn, workflow.tenant_id, origin_key)
        row = Row(workflow.tenant_id, "workflow_execution", execution_id)
        tracing.current().made("start", row)
        way = _way(workflow, execution_id, line_user, context, depth)
        way = replace(way, links=_make_links(conn, way, make_secret, now=now))
        return _take_first_step(conn, way, clicks, now=now)


def _started_before(conn: Connection, tenant_id: UUID, origin_key: str) -> Started:
    execution_id = find_execution_id(conn, tenant_id, origin_key)
    assert execution_id is not None
    return Started(execution_id=execution_id)


def _way(
    workflow: Workflow,
    execution_id: UUID,
    line_user: LineUser | None,
    context: Mapping[str, Any],
    depth: int,
) -> Way:
    return Way(
        tenant_id=workflow.tenant_id,
        execution_id=execution_id,
        workflow_id=workflow.id,
        workflow_version=workflow.version,
        nodes=workflow.nodes,
        context=context,
        links={},
        line_user_id=None if line_user is None else line_user.id,
        line_user=line_user,
        depth=depth,
    )


def _make_links(
    conn: Connection, way: Way, make_secret: Callable[[int], bytes], *, now: datetime
) -> dict[str, str]:
    """Make the link of every wait, and return their tokens: what is far before may tell of one."""
    tokens = {}
    for path, node in wait_nodes(way.nodes):
        link = insert_link(
            conn,
            tenant_id=way.tenant_id,
            token=link_token(make_secret(TOKEN_BYTES)),
            target_url=node["target_url"],
            line_user_id=way.line_user_id,
            execution_id=way.execution_id,
            workflow_node_path=path,
            name=node["link"],
            now=now,
        )
        if link is None:
            message = f"contact {way.line_user_id} does not exist"
            raise NotFound(message, code="line_user_not_found")
        tokens[node["link"]] = link.token
    return tokens


def _take_first_step(conn: Connection, way: Way, clicks: ClickStore, *, now: datetime) -> Started:
    """Record the first step, if there is one; it may wait for a link that is older than this."""
    path = first_step(way.nodes, way.judge)
    if path is None:
        return Started(execution_id=way.execution_id)
    step = step_at(conn, way, path, clicks=clicks, now=now)
    record(conn, [step], now=now)
    return Started(execution_id=way.execution_id, link_id=step.tracking_link_id)


def follow_up(
    conn: Connection,
    action: ClaimedAction,
    *,
    branch: Branch | None,
    clicks: ClickStore,
    now: datetime,
) -> NewAction | None:
    """Return the step that follows a finished one, None when the execution is at its end.

    ``branch`` is the one that a node which waits took. Conditions are judged on the contact as it
    is now. The step is to be recorded in the transaction that finishes ``action``; where it is a
    wait (it has a ``tracking_link_id``), ``after_schedule`` has to follow.
    """
    way = _way_of(conn, action)
    assert action.execution is not None
    path = action.execution.node_path
    following = (
        next_step(way.nodes, path, way.judge)
        if branch is None
        else branch_step(way.nodes, path, branch, way.judge)
    )
    return None if following is None else step_at(conn, way, following, clicks=clicks, now=now)


def _way_of(conn: Connection, action: ClaimedAction) -> Way:
    execution = action.execution
    assert execution is not None
    line_user = (
        None
        if action.line_user_id is None
        else find_line_user(conn, action.tenant_id, action.line_user_id)
    )
    return Way(
        tenant_id=action.tenant_id,
        execution_id=execution.id,
        workflow_id=execution.workflow_id,
        workflow_version=execution.workflow_version,
        nodes=read_nodes(conn, execution.workflow_id, execution.workflow_version),
        context=execution.context,
        links=action.links,
        line_user_id=action.line_user_id,
        line_user=line_user,
        depth=action.depth,
    )
