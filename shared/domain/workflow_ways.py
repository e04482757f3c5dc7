"""What an execution has passed when it comes to a node: told by the node's place alone."""

from collections.abc import Iterator
from typing import Any

from shared.domain.workflows import Nodes, node_at


def nearest_wait(nodes: Nodes, path: str) -> str | None:
    """Return the path of the wait for a click that stands nearest before a node, None without one.

    Before it, on every way that leads to it, stand the nodes in front of it in its own list, the
    node that the list belongs to, those in front of that, and so on.
    """
    for passed in _passed(path):
        node = node_at(nodes, passed)
        if isinstance(node, dict) and node.get("type") == "wait_for_tracking":
            return passed
    return None


def _passed(path: str) -> Iterator[str]:
    """Give the paths of the nodes that every way to a path has passed, the nearest first."""
    *above, index = path.split(".")
    for earlier in reversed(range(int(index))):
        yield ".".join([*above, str(earlier)])
    if above:
        owner = ".".join(above[:-1])
        yield owner
        yield from _passed(owner)


def branches_taken(nodes: Nodes, path: str) -> list[dict[str, Any]]:
    """Return how the branch nodes around a node were decided, the outermost first.

    Each is ``{"when", "held"}``: its conditions, and whether they have to hold to come here.
    """
    parts = path.split(".")
    lists = [(".".join(parts[:end]), parts[end]) for end in range(1, len(parts), 2)]
    return [
        {"when": node_at(nodes, owner)["when"], "held": key == "then"}
        for owner, key in lists
        if node_at(nodes, owner)["type"] == "branch"
    ]
