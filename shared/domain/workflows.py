"""Workflows: trees of nodes, and which node comes next (spec 3 §6).

A path such as ``2.clicked.0`` names a node: its place in the list of the workflow, or of a branch
of another node. It is all that an execution remembers. A list that ends goes on behind the node
that it belongs to.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from shared.domain.delays import actions_within
from shared.domain.scheduled_actions import Branch
from shared.domain.strict_json import Json

MAX_WORKFLOW_NAME = 200
MAX_LEVELS = 8
"""Lists of nodes inside each other."""
MAX_NODES = 200

Node = Mapping[str, Any]
Nodes = Sequence[Node]
Judge = Callable[[list[Any]], bool]
"""Tells whether the predicates of a branch hold now."""

LISTS: Mapping[str, tuple[str, str]] = {
    "wait_for_tracking": ("clicked", "not_clicked"),
    "branch": ("then", "else"),
}
"""The lists of nodes that a node has, by its type; one that is absent is empty."""
_OF_BRANCH: Mapping[Branch, Literal["clicked", "not_clicked"]] = {
    "clicked": "clicked",
    "expired": "not_clicked",
}
_INDEX = re.compile("0|[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow in its newest version, or in the one that was asked for."""

    id: int
    tenant_id: UUID
    name: str
    version: int
    nodes: list[dict[str, Any]]
    created_at: datetime
    updated_at: datetime


def node_at(nodes: Nodes, path: str) -> Node:
    """Return the node that a path names. Raises LookupError when there is none."""
    place = tuple(path.split("."))
    if not _INDEX.fullmatch(place[-1]):
        raise LookupError(f"no node has the path {path}")
    return _list_at(nodes, place[:-1])[int(place[-1])]


def nodes_in(nodes: object, path: str = "") -> Iterator[tuple[str, Json]]:
    """Give what stands in lists of nodes with its path, in document order; it may be any value.

    Lists that are nested too deeply are not gone into.
    """
    return _nodes_in(nodes, path, MAX_LEVELS)


def _nodes_in(nodes: object, prefix: str, levels: int) -> Iterator[tuple[str, Json]]:
    if not isinstance(nodes, list) or not levels:
        return
    for index, node in enumerate(nodes):
        path = f"{prefix}{index}"
        yield path, node
        if isinstance(node, dict):
            for key in _present_lists(node):
                yield from _nodes_in(node[key], f"{path}.{key}.", levels - 1)


def _present_lists(node: Node) -> list[str]:
    """Return the keys of a node's lists in document order."""
    node_type = node.get("type")
    known = LISTS.get(node_type, ()) if isinstance(node_type, str) else ()
    return [key for key in node if key in known]


def pointer_of(path: str) -> str:
    """Return the JSON pointer to the node that a path names, from the list of the workflow."""
    return "/" + path.replace(".", "/")


def wait_nodes(nodes: object) -> list[tuple[str, Node]]:
    """Return the nodes that wait for a click, each with its path."""
    return [
        (path, node)
        for path, node in nodes_in(nodes)
        if isinstance(node, dict) and node.get("type") == "wait_for_tracking"
    ]


def actions_in(nodes: object) -> list[tuple[str, Json]]:
    """Return the settings of all action nodes, each with its pointer; they may be of any shape."""
    return [
        (f"{pointer_of(path)}/action", node["action"])
        for path, node in nodes_in(nodes)
        if isinstance(node, dict) and node.get("type") == "action" and "action" in node
    ]


def started_in(nodes: object) -> list[tuple[str, str]]:
    """Return the names of the workflows that the actions of a workflow start, with pointers."""
    return [
        (f"{pointer}{inner}/workflow", action["workflow"])
        for pointer, outer in actions_in(nodes)
        for inner, action in actions_within(outer)
        if isinstance(action, dict)
        and action.get("type") == "start_workflow"
        and isinstance(action.get("workflow"), str)
    ]


def workflow_cycle(
    name: str, nodes: object, starts_of: Callable[[str], Iterable[str]]
) -> list[str] | None:
    """Return the shortest way on which a workflow with these nodes would start itself, or None.

    It begins and ends with ``name``. ``starts_of`` tells which workflows one that is stored starts;
    it is asked once for each.
    """
    before: dict[str, str] = {}
    pending = [name]
    for last in pending:  # grows while it is gone through: nearest workflows first
        started = [one for _, one in started_in(nodes)] if last == name else starts_of(last)
        for one in started:
            if one == name:
                return _way(name, last, before)
            if one not in before:
                before[one] = last
                pending.append(one)
    return None


def _way(name: str, last: str, before: Mapping[str, str]) -> list[str]:
    """Return the way from a workflow to another, by what came before each, and back."""
    way = [name]
    while last != name:
        way.append(last)
        last = before[last]
    return [name, *reversed(way)]


def first_step(nodes: Nodes, judge: Judge) -> str | None:
    """Return the path of the step that a workflow begins with, None if it ends at once.

    Steps are the nodes that take time: actions, delays and waits. Branches on the way to them are
    judged, each once.
    """
    return _step_from(nodes, ("0",), judge)


def next_step(nodes: Nodes, path: str, judge: Judge) -> str | None:
    """Return the path of the step behind the one at ``path``, None if the workflow ends there.

    Of a wait, that is the step behind its branches.
    """
    return _step_from(nodes, _behind(tuple(path.split("."))), judge)


def branch_step(nodes: Nodes, path: str, branch: Branch, judge: Judge) -> str | None:
    """Return the path of the step that follows the wait at ``path`` once its branch is decided."""
    return _step_from(nodes, (*path.split("."), _OF_BRANCH[branch], "0"), judge)


_Place = tuple[str, ...]


def _step_from(nodes: Nodes, place: _Place, judge: Judge) -> str | None:
    """Return the path of the first step at or behind a place, which may be one behind a list."""
    while place:
        siblings = _list_at(nodes, place[:-1])
        if int(place[-1]) >= len(siblings):
            place = _behind(place[:-2]) if len(place) > 1 else ()
            continue
        node = siblings[int(place[-1])]
        match node["type"]:
            case "stop":
                return None
            case "branch":
                place = (*place, "then" if judge(node["when"]) else "else", "0")
            case _:
                return ".".join(place)
    return None


def _behind(place: _Place) -> _Place:
    return (*place[:-1], str(int(place[-1]) + 1))


def _list_at(nodes: Nodes, place: _Place) -> Nodes:
    """Return the list that a place without its last part names; raises LookupError."""
    found = nodes
    for index, key in zip(place[::2], place[1::2], strict=True):
        if not _INDEX.fullmatch(index) or key not in LISTS.get(found[int(index)]["type"], ()):
            raise LookupError(f"no list of nodes is at {'.'.join(place)}")
        found = found[int(index)].get(key, [])
    return found
