"""The check of a workflow as a whole: its nodes, their actions, and whom it starts."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from shared.actions.action import CheckContext, Lookup
from shared.actions.lookups import Remembered
from shared.actions.registry import check_action
from shared.actions.urls import parse_url
from shared.domain.faults import MAX_TOLD, cut, in_document_order, under
from shared.domain.strict_json import Json
from shared.domain.workflow_faults import MAX_TARGET_URL, links_in, workflow_faults
from shared.domain.workflow_ways import nearest_wait
from shared.domain.workflows import (
    actions_in,
    nodes_in,
    pointer_of,
    started_in,
    wait_nodes,
    workflow_cycle,
)
from shared.errors import Fault


def check_workflow(nodes: object, *, name: str, lookup: Lookup) -> list[Fault]:
    """Return the faults of a workflow's nodes, in document order, from ``/nodes``.

    ``name`` is what it is about to be called. One that would start itself, directly or through
    others, is refused: an execution of it would never end.
    """
    faults = workflow_faults(nodes)
    if any(fault.pointer == "/nodes" for fault in faults):
        return faults
    assert isinstance(nodes, list)
    lookup = Remembered(lookup)
    context = CheckContext(
        place="workflow", lookup=lookup, links=frozenset(links_in(nodes)), workflow=name
    )
    found = (
        fault
        for pointer, action in actions_in(nodes)
        for fault in under(pointer, check_action(action, context))
    )
    faults += under("/nodes", islice(found, MAX_TOLD))
    places = [*_target_faults(nodes), *_link_faults(nodes), *_cycle_faults(nodes, name, lookup)]
    faults += under("/nodes", places)
    return in_document_order({"nodes": nodes}, faults)[:MAX_TOLD]


def _target_faults(nodes: object) -> Iterator[Fault]:
    for path, node in wait_nodes(nodes):
        target = node.get("target_url")
        if not isinstance(target, str) or not 1 <= len(target) <= MAX_TARGET_URL:
            continue  # said before
        try:
            parse_url(target)
        except ValueError as error:
            pointer = f"{pointer_of(path)}/target_url"
            message = f"target_url cannot be followed: {error}"
            yield Fault(code="workflow_invalid", pointer=pointer, message=message)


def _link_faults(nodes: list[Any]) -> Iterator[Fault]:
    """Give the actions that wait for a click on a link that they leave out, where none is near."""
    for path, node in nodes_in(nodes):
        if _leaves_out_its_link(node) and nearest_wait(nodes, path) is None:
            message = (
                "no node of type wait_for_tracking stands before this action:"
                " its delay must have the trackingLink that it watches"
            )
            pointer = f"{pointer_of(path)}/action/delay/trackingLink"
            yield Fault(code="delay_invalid", pointer=pointer, message=message)


def _leaves_out_its_link(node: Json) -> bool:
    action = node.get("action") if isinstance(node, dict) and node.get("type") == "action" else None
    delay = action.get("delay") if isinstance(action, dict) else None
    return (
        isinstance(delay, dict)
        and delay.get("mode") == "waitForTracking"
        and "trackingLink" not in delay
    )


def _cycle_faults(nodes: object, name: str, lookup: Lookup) -> Iterator[Fault]:
    def starts_of(other: str) -> list[str]:
        workflow = lookup.find_workflow(other)
        return [] if workflow is None else [started for _, started in started_in(workflow.nodes)]

    cycle = workflow_cycle(name, nodes, starts_of)
    if cycle is None:
        return
    pointer = next(pointer for pointer, started in started_in(nodes) if started == cycle[1])
    message = f"the workflow would start itself: {cut(' → '.join(cycle))}"
    yield Fault(code="workflow_starts_itself", pointer=pointer, message=message)
