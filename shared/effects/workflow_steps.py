"""Executions of workflows: started, and led from one step to the next (spec 3 §6).

A step is a scheduled action at its node: the one that waits *is* the suspended execution. Its end
and the next step are one transaction, and a node has one step at most, so that steps neither get
lost nor run twice.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.delays import delay_of, without_delay
from shared.domain.event_rules import holds, read_conditions
from shared.domain.line_users import LineUser
from shared.domain.scheduled_actions import Branch, ClaimedAction, NewAction
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.domain.workflows import (
    Judge,
    Nodes,
    Workflow,
    branch_step,
    first_step,
    next_step,
    node_at,
    wait_nodes,
)
from shared.effects.delays import Watched, timed, waiting, wake
from shared.effects.record_writes import MAX_DEPTH, ChainTooDeep
from shared.errors import NotFound
from shared.queries.executions import find_execution_id, insert_execution
from shared.queries.line_users import find_line_user
from shared.queries.scheduled_actions import insert_actions
from shared.queries.tracking import find_link_of_wait, insert_link
from shared.queries.workflows import read_nodes
from shared.tracking.click_store import ClickStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What the steps of one execution share."""

    tenant_id: UUID
    execution_id: UUID
    workflow_id: int
    workflow_version: int
    line_user_id: int | None
    depth: int


def start_execution(
    conn: Connection,
    workflow: Workflow,
    *,
    line_user: LineUser | None,
    context: Mapping[str, Any],
    origin_key: str,
    depth: int,
    now: datetime,
    make_secret: Callable[[int], bytes] = secrets.token_bytes,
) -> UUID:
    """Start an execution, once for its origin key, and return its id.

    It has a link for each wait and its first step; ``context`` is what conditions and tokens know
    as the event. One transaction. Raises ChainTooDeep, and NotFound ``line_user_not_found`` for a
    contact that is deleted meanwhile.
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
        way = _way(workflow, execution_id, line_user, depth)
        _make_links(conn, way, workflow.nodes, make_secret, now=now)
        path = first_step(workflow.nodes, judge_of(context, line_user))
        if path is not None:
            _take_step(conn, way, workflow.nodes, path, now=now)
    return execution_id


def _started_before(conn: Connection, tenant_id: UUID, origin_key: str) -> UUID:
    execution_id = find_execution_id(conn, tenant_id, origin_key)
    assert execution_id is not None
    return execution_id


def _way(workflow: Workflow, execution_id: UUID, line_user: LineUser | None, depth: int) -> Way:
    return Way(
        tenant_id=workflow.tenant_id,
        execution_id=execution_id,
        workflow_id=workflow.id,
        workflow_version=workflow.version,
        line_user_id=None if line_user is None else line_user.id,
        depth=depth,
    )


def _make_links(
    conn: Connection,
    way: Way,
    nodes: Nodes,
    make_secret: Callable[[int], bytes],
    *,
    now: datetime,
) -> None:
    """Make the link of every wait: an action far before it may tell of it."""
    for path, node in wait_nodes(nodes):
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


def _take_step(conn: Connection, way: Way, nodes: Nodes, path: str, *, now: datetime) -> None:
    """Record the first step; its link, if it is a wait, cannot have been clicked by anybody."""
    node = node_at(nodes, path)
    watched = None
    if node["type"] == "wait_for_tracking":
        watched = _watched(conn, way.execution_id, path, clicks=None)
    step = step_action(way, path, node, watched=watched, now=now)
    insert_actions(conn, [step], now=now)
    wake(conn, [step], now=now)


def follow_up(
    conn: Connection,
    action: ClaimedAction,
    *,
    branch: Branch | None,
    clicks: ClickStore,
    now: datetime,
) -> NewAction | None:
    """Return the step that follows a finished one, None when the execution is at its end.

    ``branch`` is the one that a wait took. Conditions are judged on the contact as it is now. The
    step is to be recorded in the transaction that finishes ``action``; where it is a wait (it has a
    ``tracking_link_id``), ``after_schedule`` has to follow.
    """
    execution = action.execution
    assert execution is not None
    nodes = read_nodes(conn, execution.workflow_id, execution.workflow_version)
    line_user = (
        None
        if action.line_user_id is None
        else find_line_user(conn, action.tenant_id, action.line_user_id)
    )
    judge = judge_of(execution.context, line_user)
    if branch is None:
        path = next_step(nodes, execution.node_path, judge)
    else:
        path = branch_step(nodes, execution.node_path, branch, judge)
    if path is None:
        return None
    node = node_at(nodes, path)
    watched = None
    if node["type"] == "wait_for_tracking":
        watched = _watched(conn, execution.id, path, clicks=clicks)
    return step_action(_way_of(action), path, node, watched=watched, now=now)


def _way_of(action: ClaimedAction) -> Way:
    execution = action.execution
    assert execution is not None
    return Way(
        tenant_id=action.tenant_id,
        execution_id=execution.id,
        workflow_id=execution.workflow_id,
        workflow_version=execution.workflow_version,
        line_user_id=action.line_user_id,
        depth=action.depth,
    )


def _watched(
    conn: Connection, execution_id: UUID, path: str, *, clicks: ClickStore | None
) -> Watched:
    link = find_link_of_wait(conn, execution_id=execution_id, path=path)
    assert link is not None
    clicked_at = None if clicks is None else clicks.clicked_at(conn, link)
    return Watched(link=link, clicked_at=clicked_at)


def step_action(
    way: Way, path: str, node: Mapping[str, Any], *, watched: Watched | None, now: datetime
) -> NewAction:
    """Return the step at a node: an action, a delay, or a wait for the link in ``watched``.

    Of the latter two the action's type is the node's, and its settings are the node's own.
    """
    step = NewAction(
        tenant_id=way.tenant_id,
        origin_key=f"execution:{way.execution_id}:{path}",
        execute_at=now,
        action_type=node["type"],
        action_config={key: node[key] for key in ("seconds", "link") if key in node},
        execution_id=way.execution_id,
        workflow_id=way.workflow_id,
        workflow_version=way.workflow_version,
        workflow_node_path=path,
        line_user_id=way.line_user_id,
        depth=way.depth,
    )
    if node["type"] == "action":
        return _of_action(step, node["action"], now=now)
    deadline = now + timedelta(seconds=node["seconds"])
    if watched is not None:
        return waiting(step, watched, deadline=deadline, now=now)
    return replace(step, execute_at=deadline)


def _of_action(step: NewAction, config: Mapping[str, Any], *, now: datetime) -> NewAction:
    action = replace(step, action_type=config["type"], action_config=without_delay(config))
    return timed(action, delay_of(config), now=now)


def judge_of(context: Mapping[str, Any], line_user: LineUser | None) -> Judge:
    """Return what tells whether a branch's conditions hold for this context and contact."""

    def judge(when: list[Any]) -> bool:
        predicates, _ = read_conditions(when)
        return holds(predicates, event=context, line_user=line_user)

    return judge
