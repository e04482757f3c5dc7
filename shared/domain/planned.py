"""A plan as a value: what stands, what is to be, and what becomes of each resource."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal
from uuid import UUID

from shared.domain.bundles import Kind, Line
from shared.domain.columns import Column
from shared.domain.commands import Command
from shared.domain.differences import Change
from shared.domain.event_rules import TriggerRule
from shared.domain.records import Approval, CustomTable
from shared.domain.strict_json import Json
from shared.domain.triggers import ScheduleKind
from shared.domain.workflows import Workflow

PlannedAction = Literal["create", "update", "delete", "noop", "adopt"]
CHANGING: tuple[PlannedAction, ...] = ("create", "update", "delete")

MAX_CHANGES = 100
"""Differences that are told of one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What happens to one resource; ``line`` is None for what stands and is not in the document.

    ``table`` is the name of a trigger's table, ``trigger_id`` the id that it has or will keep: None
    until it gets one. ``changes`` of an update are its differences; of a delete, all that goes.
    """

    kind: Kind
    name: str
    table: str | None = None
    trigger_id: str | None = None
    line: int | None
    action: PlannedAction
    changes: tuple[Change, ...] = ()
    more_changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What stands of that which a document names.

    ``tables`` are by name, ``names`` those of all live tables within reach that share theirs with
    no other, ``ambiguous`` the names that several have. ``kinds`` are by table and trigger id, of
    retired triggers too.
    """

    tables: Mapping[str, CustomTable] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    ambiguous: Collection[str] = ()
    kinds: Mapping[UUID, Mapping[str, ScheduleKind]] = field(default_factory=dict)
    rules: Mapping[str, TriggerRule] = field(default_factory=dict)
    workflows: Mapping[str, Workflow] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrigger:
    """A trigger of a table as it is to be; ``line`` is None for one that the document leaves."""

    body: dict[str, Json]
    item: Item
    line: Line | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """A table as it is to be, with its triggers in order; ``line`` is None when it stays as it is.

    ``item`` is that of the line. ``sets_triggers``: they have to be saved.
    """

    name: str
    stored: CustomTable | None
    line: Line | None
    item: Item | None
    columns: tuple[Column, ...]
    approval: Approval
    channel_id: UUID | None
    triggers: tuple[PlannedTrigger, ...]
    deleted: tuple[Item, ...]
    sets_triggers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedResource:
    """A rule, workflow or command as it is to be."""

    line: Line
    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a document changes: ``items`` in its order, and behind them what goes."""

    tables: tuple[PlannedTable, ...]
    resources: tuple[PlannedResource, ...]
    items: tuple[Item, ...]


def count_actions(items: Iterable[Item]) -> dict[PlannedAction, int]:
    """Return how many items have each action."""
    found = Counter(item.action for item in items)
    actions: tuple[PlannedAction, ...] = (*CHANGING, "noop", "adopt")
    return {action: found[action] for action in actions}


def compared(item: Item, changes: Iterable[Change]) -> Item:
    """Return the item of something that stands: an update with its first changes, or a noop."""
    found = tuple(islice(changes, MAX_CHANGES + 1))
    return replace(
        item,
        action="update" if found else "noop",
        changes=found[:MAX_CHANGES],
        more_changes=len(found) > MAX_CHANGES,
    )
