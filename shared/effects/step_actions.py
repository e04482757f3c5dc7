"""The scheduled action that a node of a workflow becomes when an execution comes to it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.delays import Delay, delay_of, without_delay
from shared.domain.event_rules import conditions_hold
from shared.domain.line_users import LineUser, cells
from shared.domain.scheduled_actions import NewAction
from shared.domain.templates import TemplateContext, render, text_of
from shared.domain.workflow_ways import branches_taken, nearest_wait
from shared.domain.workflows import Judge, Node, Nodes, node_at
from shared.effects.delays import Watched, timed, waiting, watch
from shared.errors import InvalidInput, NotFound
from shared.queries.tracking import find_link_of_wait
from shared.tracking.click_store import ClickStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What the steps of one execution share; ``links`` are the tokens of its links by name.

    ``line_user`` is the contact as it is now, None where there is none or it is gone.
    """

    tenant_id: UUID
    execution_id: UUID
    workflow_id: int
    workflow_version: int
    nodes: Nodes
    context: Mapping[str, Any]
    links: Mapping[str, str]
    line_user_id: int | None
    line_user: LineUser | None
    depth: int

    @property
    def judge(self) -> Judge:
        """Tells whether a branch's conditions hold for the contact and the context."""
        return judge_of(self.context, self.line_user)


def judge_of(context: Mapping[str, Any], line_user: LineUser | None) -> Judge:
    """Return what tells whether a branch's conditions hold for this context and contact."""

    def judge(when: list[Any]) -> bool:
        return conditions_hold(when, event=context, line_user=line_user)

    return judge


def step_at(
    conn: Connection, way: Way, path: str, *, clicks: ClickStore, now: datetime
) -> NewAction:
    """Return the step at a node: an action, a delay, or a wait for the node's link.

    Of the latter two the action's type is the node's, and its settings are the node's own. The
    transaction that calls this records it; a link that it waits for is locked until then.
    """
    node = node_at(way.nodes, path)
    if node["type"] == "action":
        return _of_action(conn, way, path, node["action"], clicks=clicks, now=now)
    config = {key: node[key] for key in ("seconds", "link") if key in node}
    deadline = now + timedelta(seconds=node["seconds"])
    step = replace(_step(way, path, node["type"], config, now=now), execute_at=deadline)
    if node["type"] == "delay":
        return step
    link = find_link_of_wait(conn, execution_id=way.execution_id, path=path)
    assert link is not None
    watched = Watched(link=link, clicked_at=clicks.clicked_at(conn, link))
    return waiting(step, watched, deadline=deadline, now=now)


def _step(
    way: Way, path: str, action_type: str, config: Mapping[str, Any], *, now: datetime
) -> NewAction:
    return NewAction(
        tenant_id=way.tenant_id,
        origin_key=f"execution:{way.execution_id}:{path}",
        execute_at=now,
        action_type=action_type,
        action_config=config,
        execution_id=way.execution_id,
        workflow_id=way.workflow_id,
        workflow_version=way.workflow_version,
        workflow_node_path=path,
        line_user_id=way.line_user_id,
        depth=way.depth,
    )


def _of_action(
    conn: Connection,
    way: Way,
    path: str,
    config: Mapping[str, Any],
    *,
    clicks: ClickStore,
    now: datetime,
) -> NewAction:
    """Return the step of an action: to be judged again as the branches around it were decided."""
    step = replace(
        _step(way, path, config["type"], without_delay(config), now=now),
        source_config={"branches": branches_taken(way.nodes, path)},
    )
    delay = delay_of(config)
    watched = None
    if delay is not None and delay.mode == "waitForTracking":
        try:
            watched = watch(conn, way.tenant_id, _link_of(way, path, delay, now=now), clicks)
        except (InvalidInput, NotFound) as error:
            # What led here has happened, and stands: the step tells of this itself, as failed.
            return replace(timed(step, None, now=now), context={"refused": error.message})
    return timed(step, delay, watched=watched, now=now)


def _link_of(way: Way, path: str, delay: Delay, *, now: datetime) -> str:
    """Return the token or the address of the link that an action waits for."""
    if delay.tracking_link is None:
        wait = nearest_wait(way.nodes, path)
        assert wait is not None
        return way.links[_name_of(node_at(way.nodes, wait))]
    template = TemplateContext(
        row=None,
        run_id=0,
        scheduled_for=now,
        trigger_name="",
        now=now,
        event=way.context,
        line_user={} if way.line_user is None else cells(way.line_user),
        links=way.links,
    )
    return text_of(render(delay.tracking_link, template))


def _name_of(wait: Node) -> str:
    name: str = wait["link"]
    return name
