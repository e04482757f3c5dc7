"""What an altered table breaks: definitions that were valid before, and would be refused now.

A dropped column, or one of another type, is no reason to refuse the change: whatever names it
stays, and this tells it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, get_args
from uuid import UUID

from psycopg import Connection

from shared.actions.action import Lookup
from shared.actions.definition_checks import check_workflow
from shared.actions.lookups import Remembered
from shared.actions.registry import check_actions
from shared.domain.column_renames import (
    rename_in_actions,
    rename_in_nodes,
    rename_written_columns,
)
from shared.domain.columns import Column
from shared.domain.commands import Command
from shared.domain.faults import MAX_TOLD
from shared.domain.records import CustomTable
from shared.domain.triggers import EVENTS, ReadTrigger, ScheduleKind, read_triggers
from shared.domain.workflows import Workflow
from shared.errors import Fault
from shared.queries.table_references import list_tables_naming, rules_naming, workflows_naming
from shared.queries.trigger_rules import get_rule
from shared.queries.workflows import get_workflow
from shared.usecases.lookups import TenantLookup

_KINDS: tuple[ScheduleKind, ...] = get_args(ScheduleKind)

MAX_FAULTS = 20
"""Faults that are told of one definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenReference:
    """A definition that an alteration breaks; ``table_id`` is that of a trigger alone.

    The pointers of ``faults`` lead into the definition.
    """

    kind: Literal["trigger", "trigger_rule", "workflow"]
    table_id: UUID | None
    id: str
    name: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _With:
    """A lookup in which one table is as given."""

    lookup: Lookup
    table: CustomTable

    def find_table(self, table_id: UUID) -> CustomTable | None:
        """Return the tenant's live table, or None."""
        return self.table if table_id == self.table.id else self.lookup.find_table(table_id)

    def find_command(self, name: str) -> Command | None:
        """Return the tenant's command, or None."""
        return self.lookup.find_command(name)

    def find_workflow(self, name: str) -> Workflow | None:
        """Return the tenant's workflow, or None."""
        return self.lookup.find_workflow(name)

    def has_secret(self, name: str) -> bool:
        """Return whether the tenant has a secret of this name."""
        return self.lookup.has_secret(name)


def broken_references(
    conn: Connection, before: CustomTable, after: CustomTable, renames: Mapping[str, str]
) -> list[BrokenReference]:
    """Return what the alteration of a table breaks, its own triggers first; up to 100 definitions.

    Nothing of it is stored yet. What was faulty before is not told, nor are triggers in the trash.
    ``renames`` is old name to new name, and is followed (``after`` has its triggers renamed).
    """
    if not _can_break(before, after):
        return []
    found = chain(
        _own_triggers(conn, before, after),
        _others(conn, before, after, renames),
        _rules(conn, before, after, renames),
        _workflows(conn, before, after, renames),
    )
    return list(islice((one for one in found if one.faults), MAX_TOLD))


def _can_break(before: CustomTable, after: CustomTable) -> bool:
    """Tell whether a column went, or takes other cells."""
    kept = {column.id: (column.type, column.options) for column in after.columns}
    return any(kept.get(column.id) != (column.type, column.options) for column in before.columns)


def _lookup(conn: Connection, table: CustomTable) -> Lookup:
    lookup = Remembered(TenantLookup(conn=conn, tenant_id=table.tenant_id))
    return _With(lookup=lookup, table=table)


def _new(old: Iterable[Fault], new: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the faults that were not there before."""
    known = {(fault.code, fault.pointer) for fault in old}
    added = (fault for fault in new if (fault.code, fault.pointer) not in known)
    return tuple(islice(added, MAX_FAULTS))


def _own_triggers(
    conn: Connection, before: CustomTable, after: CustomTable
) -> Iterator[BrokenReference]:
    old = _faults_of(before.triggers, before.columns, _lookup(conn, before))
    new = _faults_of(after.triggers, after.columns, _lookup(conn, after))
    yield from _broken_triggers(after, old, new)


def _others(
    conn: Connection, before: CustomTable, after: CustomTable, renames: Mapping[str, str]
) -> Iterator[BrokenReference]:
    for other in list_tables_naming(conn, before.tenant_id, before.id):
        if other.trashed_at is None and isinstance(other.triggers, list):
            renamed = rename_written_columns(other.triggers, renames, table_id=before.id)
            old = _faults_of(other.triggers, other.columns, _lookup(conn, before))
            new = _faults_of(renamed, other.columns, _lookup(conn, after))
            yield from _broken_triggers(other, old, new)


_Read = list[tuple[ReadTrigger, list[Fault]]]


def _faults_of(stored: object, columns: tuple[Column, ...], lookup: Lookup) -> _Read:
    """Return each stored trigger with what is wrong with it and its actions."""
    if not isinstance(stored, list):
        return []
    return [
        (read, [*read.faults, *_action_faults(read, columns, lookup)])
        for read in read_triggers(stored, columns, stored=True)
    ]


def _action_faults(read: ReadTrigger, columns: tuple[Column, ...], lookup: Lookup) -> list[Fault]:
    if not isinstance(read.raw, dict):
        return []
    on = read.raw.get("on")
    kind = read.schedule_type if read.is_schedule else None
    return check_actions(
        read.raw.get("actions"),
        lookup=lookup,
        on=on if on in EVENTS else "schedule",
        schedule_kind=next((known for known in _KINDS if known == kind), None),
        columns=columns,
    )


def _broken_triggers(table: CustomTable, old: _Read, new: _Read) -> Iterator[BrokenReference]:
    for (_, before), (read, after) in zip(old, new, strict=True):
        name = read.raw.get("name") if isinstance(read.raw, dict) else None
        yield BrokenReference(
            kind="trigger",
            table_id=table.id,
            id=read.trigger_id or "",
            name=name if isinstance(name, str) else "",
            faults=_new(before, after),
        )


def _rules(
    conn: Connection, before: CustomTable, after: CustomTable, renames: Mapping[str, str]
) -> Iterator[BrokenReference]:
    for rule_id in rules_naming(conn, before.tenant_id, before.id):
        rule = get_rule(conn, before.tenant_id, rule_id)
        renamed = rename_in_actions(rule.actions, renames, table_id=before.id)
        old = check_actions(rule.actions, lookup=_lookup(conn, before), place="rule")
        new = check_actions(renamed, lookup=_lookup(conn, after), place="rule")
        yield BrokenReference(
            kind="trigger_rule",
            table_id=None,
            id=str(rule_id),
            name=rule.name,
            faults=_new(old, new),
        )


def _workflows(
    conn: Connection, before: CustomTable, after: CustomTable, renames: Mapping[str, str]
) -> Iterator[BrokenReference]:
    for workflow_id in workflows_naming(conn, before.tenant_id, before.id):
        workflow = get_workflow(conn, before.tenant_id, workflow_id)
        name, nodes = workflow.name, workflow.nodes
        renamed = rename_in_nodes(nodes, renames, table_id=before.id)
        old = check_workflow(nodes, name=name, lookup=_lookup(conn, before))
        new = check_workflow(renamed, name=name, lookup=_lookup(conn, after))
        yield BrokenReference(
            kind="workflow", table_id=None, id=str(workflow_id), name=name, faults=_new(old, new)
        )
