"""The check of a workflow as a whole: its nodes, their actions, and whom it starts."""

from collections.abc import Iterator
from itertools import islice

from shared.actions.action import CheckContext, Lookup
from shared.actions.lookups import Remembered
from shared.actions.registry import check_action
from shared.actions.urls import parse_url
from shared.domain.faults import MAX_TOLD, cut, in_document_order, under
from shared.domain.workflow_faults import MAX_TARGET_URL, links_in, workflow_faults
from shared.domain.workflows import (
    actions_in,
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
    faults += under("/nodes", [*_target_faults(nodes), *_cycle_faults(nodes, name, lookup)])
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
