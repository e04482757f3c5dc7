"""Plans: what a document would change of what stands, line by line (spec 4 §3).

Both sides are compared as lines: in normal form, tables in actions by name, columns that a document
renames already renamed in whatever stands and names them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from shared.domain.bundle_references import named_tables, with_names
from shared.domain.bundles import Line, command_body, rule_body, workflow_body
from shared.domain.column_renames import rename_in_actions, rename_in_nodes
from shared.domain.differences import differences
from shared.domain.faults import MAX_TOLD, cut, under
from shared.domain.plan_tables import Head, TableRename, read_head, renames_of
from shared.domain.plan_triggers import plan_table
from shared.domain.planned import Item, Plan, PlannedResource, PlannedTable, Stored, compared
from shared.domain.strict_json import Json
from shared.domain.triggers import ReadTrigger, kind_change_faults
from shared.errors import Fault, InvalidInput

_LineFault = tuple[Line, Fault]


def make_plan(lines: Sequence[Line], stored: Stored) -> Plan:
    """Return the plan of a document. Raises InvalidInput with the faults of all lines.

    Pointers begin with the number of the line. Told are names that lead nowhere or to several
    tables (``table_unknown``, ``table_ambiguous``), columns that are wrong, a channel or a kind of
    schedule that cannot change. What else is invalid is planned, and refused when it is applied.
    """
    of_triggers = defaultdict[str, list[Line]](list)
    for line in lines:
        if line.kind == "trigger":
            of_triggers[line.body["table"]].append(line)
    heads, faults = _heads(lines, of_triggers, stored)
    faults += _name_faults(lines, stored)
    for head in heads:
        faults += _kind_faults(head, of_triggers[head.name], stored)
    if faults:
        raise _refusal(faults)
    renames = renames_of(heads)
    tables = tuple(
        plan_table(head, of_triggers[head.name], renames, stored.names) for head in heads
    )
    resources = tuple(
        PlannedResource(line=line, item=_resource_item(line, renames, stored))
        for line in lines
        if line.kind in _STANDING
    )
    return Plan(tables=tables, resources=resources, items=_items(tables, resources))


def _refusal(faults: list[_LineFault]) -> InvalidInput:
    faults.sort(key=lambda found: found[0].number)
    told = [fault for line, found in faults for fault in under(f"/{line.number}", [found])]
    return InvalidInput.of(told[:MAX_TOLD])


def _heads(
    lines: Sequence[Line], of_triggers: dict[str, list[Line]], stored: Stored
) -> tuple[list[Head], list[_LineFault]]:
    """Return the tables in the order in which lines of their own, then of triggers, name them."""
    own = {line.body["name"]: line for line in lines if line.kind == "table"}
    heads: list[Head] = []
    faults: list[_LineFault] = []
    for name in dict.fromkeys([*own, *of_triggers]):
        line = own.get(name)
        head, found = read_head(name, stored.tables.get(name), line)
        heads.append(head)
        faults += [(line, fault) for fault in found if line is not None]
    return heads, faults


def _name_faults(lines: Sequence[Line], stored: Stored) -> Iterator[_LineFault]:
    known = {line.body["name"] for line in lines if line.kind == "table"} | {*stored.names.values()}
    for line in lines:
        for pointer, name in _names_in(line):
            if name in stored.ambiguous:
                message = f"several tables are named '{cut(name)}'"
                yield line, Fault(code="table_ambiguous", pointer=pointer, message=message)
            elif name not in known:
                message = f"there is no table '{cut(name)}', and no line of the document makes it"
                yield line, Fault(code="table_unknown", pointer=pointer, message=message)


def _names_in(line: Line) -> Iterator[tuple[str, str]]:
    match line.kind:
        case "table":
            yield "/name", line.body["name"]
        case "trigger":
            yield "/table", line.body["table"]
    yield from named_tables(line.body)


def _kind_faults(head: Head, triggers: Sequence[Line], stored: Stored) -> Iterator[_LineFault]:
    kinds = stored.kinds.get(head.stored.id, {}) if head.stored else {}
    for line in triggers:
        read = ReadTrigger(raw=line.body, trigger=None, faults=())
        yield from ((line, fault) for fault in kind_change_faults(read, kinds))


def _rule(name: str, renames: Sequence[TableRename], stored: Stored) -> dict[str, Json] | None:
    rule = stored.rules.get(name)
    if rule is None:
        return None
    actions: list[Any] = rule.actions
    for one in renames:
        actions = rename_in_actions(actions, one.renames, table_id=one.table_id)
    return rule_body(replace(rule, actions=actions))


def _workflow(name: str, renames: Sequence[TableRename], stored: Stored) -> dict[str, Json] | None:
    workflow = stored.workflows.get(name)
    if workflow is None:
        return None
    nodes: list[Any] = workflow.nodes
    for one in renames:
        nodes = rename_in_nodes(nodes, one.renames, table_id=one.table_id)
    return workflow_body(replace(workflow, nodes=nodes))


def _command(name: str, _: Sequence[TableRename], stored: Stored) -> dict[str, Json] | None:
    command = stored.commands.get(name)
    return None if command is None else command_body(command)


_STANDING = {"trigger_rule": _rule, "workflow": _workflow, "command": _command}
"""How what stands is found and told, by the kinds of lines that are no part of a table."""


def _resource_item(line: Line, renames: Sequence[TableRename], stored: Stored) -> Item:
    name = line.body["name"]
    item = Item(kind=line.kind, name=name, line=line.number, action="create")
    met = _STANDING[line.kind](name, renames, stored)
    if met is None:
        return item
    before, after = with_names(met, stored.names), with_names(line.body, stored.names)
    return compared(item, differences(before, after))


def _items(
    tables: Sequence[PlannedTable], resources: Sequence[PlannedResource]
) -> tuple[Item, ...]:
    found = [resource.item for resource in resources]
    found += [table.item for table in tables if table.item is not None]
    found += [one.item for table in tables for one in table.triggers if one.line is not None]
    found.sort(key=lambda item: item.line or 0)
    return (*found, *(item for table in tables for item in table.deleted))
