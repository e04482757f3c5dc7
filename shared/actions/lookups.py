"""A lookup that asks once for each name, however many actions of a body name it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from shared.actions.action import Lookup
from shared.domain.commands import Command
from shared.domain.records import CustomTable
from shared.domain.workflows import Workflow, started_in

Name = TypeVar("Name")
Found = TypeVar("Found")


class Remembered:
    """Answers as another lookup did, for the length of one check."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._tables: dict[UUID, CustomTable | None] = {}
        self._commands: dict[str, Command | None] = {}
        self._workflows: dict[str, Workflow | None] = {}
        self._secrets: dict[str, bool] = {}

    def find_table(self, table_id: UUID) -> CustomTable | None:
        """Return the live table of the tenant, or None."""
        return _once(self._tables, table_id, lambda: self._lookup.find_table(table_id))

    def find_command(self, name: str) -> Command | None:
        """Return the command of the tenant, or None."""
        return _once(self._commands, name, lambda: self._lookup.find_command(name))

    def find_workflow(self, name: str) -> Workflow | None:
        """Return the workflow of the tenant, or None."""
        return _once(self._workflows, name, lambda: _outline(self._lookup.find_workflow(name)))

    def has_secret(self, name: str) -> bool:
        """Return whether the tenant has a secret of this name."""
        return _once(self._secrets, name, lambda: self._lookup.has_secret(name))


def _outline(workflow: Workflow | None) -> Workflow | None:
    """Return a workflow with those that it starts as its only nodes: all whole ones are too much.

    No check asks for more, and a tenant's 500 largest would take a gigabyte.
    """
    if workflow is None:
        return None
    started = dict.fromkeys(name for _, name in started_in(workflow.nodes))
    actions = [{"type": "start_workflow", "workflow": name} for name in started]
    return replace(workflow, nodes=[{"type": "action", "action": action} for action in actions])


def _once(known: dict[Name, Found], name: Name, ask: Callable[[], Found]) -> Found:
    if name not in known:
        known[name] = ask()
    return known[name]
