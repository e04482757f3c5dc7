"""What is wrong with the nodes of a workflow, as far as no action type is asked."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from shared.domain.action_lists import action_faults
from shared.domain.delays import seconds_fault
from shared.domain.event_rules import read_conditions
from shared.domain.faults import MAX_TOLD, child, cut, in_document_order, unknown_key, unknown_keys
from shared.domain.workflows import LISTS, MAX_LEVELS, MAX_NODES, nodes_in, pointer_of, wait_nodes
from shared.errors import Fault

MAX_TARGET_URL = 2048
MAX_NODES_TEXT = 262_144
"""Characters of a workflow's nodes, written as JSON: every step of an execution reads them."""

_LINK = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "action": ("action",),
    "delay": ("seconds",),
    "wait_for_tracking": ("seconds", "link", "target_url"),
    "branch": ("when",),
    "stop": (),
}
NODE_TYPES = tuple(_KEYS)


def workflow_faults(nodes: object) -> list[Fault]:
    """Return what is wrong with the nodes of a workflow, in document order, from ``/nodes``."""
    if not isinstance(nodes, list) or not nodes:
        return [_fault("/nodes", "nodes must be a list of at least one node")]
    if next(islice(nodes_in(nodes), MAX_NODES, None), None) is not None:
        return [_fault("/nodes", f"a workflow has at most {MAX_NODES} nodes")]
    if len(json.dumps(nodes, ensure_ascii=False)) > MAX_NODES_TEXT:
        return [_fault("/nodes", f"nodes have at most {MAX_NODES_TEXT} characters together")]
    found = islice(_list_faults(nodes, "/nodes", MAX_LEVELS), MAX_TOLD)
    return in_document_order({"nodes": nodes}, [*found, *_link_faults(nodes)])[:MAX_TOLD]


def links_in(nodes: object) -> list[str]:
    """Return the names of the links of a workflow's waits, in document order."""
    return [node["link"] for _, node in wait_nodes(nodes) if isinstance(node.get("link"), str)]


def _link_faults(nodes: object) -> Iterator[Fault]:
    counts = Counter(links_in(nodes))
    for path, node in wait_nodes(nodes):
        name = node.get("link")
        if isinstance(name, str) and counts[name] > 1:
            message = f"two waits of the workflow have the link '{cut(name)}'"
            yield _fault(f"/nodes{pointer_of(path)}/link", message)


def _list_faults(nodes: object, pointer: str, levels: int) -> Iterator[Fault]:
    if not isinstance(nodes, list):
        yield _fault(pointer, f"{pointer.rpartition('/')[2]} must be a list of nodes")
    elif nodes and not levels:
        yield _fault(pointer, f"nodes are nested at most {MAX_LEVELS} lists deep")
    else:
        for index, node in enumerate(nodes):
            yield from _node_faults(node, child(pointer, index), levels)


def _node_faults(node: object, pointer: str, levels: int) -> Iterator[Fault]:
    if not isinstance(node, dict):
        yield _fault(pointer, "a node must be an object")
        return
    kind = node.get("type")
    if kind not in NODE_TYPES:
        message = f"the type of a node must be one of: {', '.join(NODE_TYPES)}"
        yield _fault(child(pointer, "type"), message)
        return
    lists = LISTS.get(kind, ())
    known = ("type", *_KEYS[kind], *lists)
    for key in unknown_keys(node, known):
        yield _fault(child(pointer, key), unknown_key(key, f"a node of type {kind}", known))
    for key in _KEYS[kind]:
        if key in node:
            yield from _CHECKS[key](node[key], child(pointer, key))
        else:
            yield _fault(child(pointer, key), f"a node of type {kind} must have {key}")
    for key in lists:
        yield from _list_faults(node.get(key, []), child(pointer, key), levels - 1)


def _action_faults(action: object, pointer: str) -> Iterator[Fault]:
    yield from action_faults(action, pointer, code="workflow_invalid")


def _seconds_faults(seconds: object, pointer: str) -> Iterator[Fault]:
    fault = seconds_fault(seconds, pointer, "seconds")
    if fault is not None:
        yield fault


def _name_faults(name: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(name, str) or not _LINK.fullmatch(name):
        message = "link must be a name of up to 64 letters, digits and _ that begins with no digit"
        yield _fault(pointer, message)


def _target_faults(target: object, pointer: str) -> Iterator[Fault]:
    if not isinstance(target, str) or not 1 <= len(target) <= MAX_TARGET_URL:
        message = f"target_url must be a text of 1 to {MAX_TARGET_URL} characters"
        yield _fault(pointer, message)


def _when_faults(when: object, pointer: str) -> Iterator[Fault]:
    _, faults = read_conditions(when, pointer)
    yield from faults


_CHECKS: Mapping[str, Callable[[Any, str], Iterator[Fault]]] = {
    "action": _action_faults,
    "seconds": _seconds_faults,
    "link": _name_faults,
    "target_url": _target_faults,
    "when": _when_faults,
}


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="workflow_invalid", pointer=pointer, message=message)
