"""The triggers of a table of a plan: which line is about which, and their order."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from shared.domain.bundle_references import with_names
from shared.domain.bundles import Line, trigger_body
from shared.domain.column_renames import rename_columns, rename_written_columns
from shared.domain.differences import Change, canonical, differences
from shared.domain.plan_tables import Head, TableRename, moves, table_changes
from shared.domain.planned import (
    CHANGING,
    Item,
    PlannedAction,
    PlannedTable,
    PlannedTrigger,
    compared,
)
from shared.domain.strict_json import Json

Names = Mapping[UUID, str]
_Body = dict[str, Json]


def plan_table(
    head: Head, lines: Sequence[Line], renames: Sequence[TableRename], names: Names
) -> PlannedTable:
    """Return a table with its triggers; ``lines`` are those of its triggers.

    A stored trigger without a line goes if the table has one, else it stays as it is. ``names`` are
    those of the tables that actions may name.
    """
    standing = _standing(head, renames, names)
    bodies = [with_names(line.body, names) for line in lines]
    met = _matched(bodies, standing)
    triggers = [_trigger(*each) for each in zip(lines, bodies, met, strict=True)]
    matched = {id(body) for body in met if body is not None}
    left = [body for body in standing if id(body) not in matched]
    if head.line is None:
        triggers, left = _in_standing_order(triggers, met, standing), []
    item = None if head.line is None else _table_item(head, head.line, standing, met)
    deleted = tuple(_deleted(body) for body in left)
    return PlannedTable(
        name=head.name,
        stored=head.stored,
        line=head.line,
        item=item,
        columns=head.columns,
        approval=head.approval,
        channel_id=head.channel_id,
        triggers=tuple(triggers),
        deleted=deleted,
        sets_triggers=bool(deleted) or _are_saved(item, triggers),
    )


def _are_saved(item: Item | None, triggers: Sequence[PlannedTrigger]) -> bool:
    """Tell whether triggers have to be saved: changed, moved, or judged by other columns."""
    if any(trigger.item.action in CHANGING for trigger in triggers):
        return True
    changes = item.changes if item is not None and item.action == "update" else ()
    return bool(triggers) and any(change.pointer != "/approval" for change in changes)


def _standing(head: Head, renames: Sequence[TableRename], names: Names) -> list[_Body]:
    """Return the stored triggers of a table as lines, renamed as the document will rename them."""
    if head.stored is None:
        return []
    triggers: list[Any] = [one for one in head.stored.triggers or [] if isinstance(one, dict)]
    for one in renames:
        rename = rename_columns if one.table_id == head.stored.id else rename_written_columns
        triggers = rename(triggers, one.renames, table_id=one.table_id)
    return [with_names(trigger_body(head.name, one), names) for one in triggers]


def _matched(bodies: Sequence[_Body], standing: Sequence[_Body]) -> list[_Body | None]:
    """Return the stored trigger that each line is about: by its id, without one by structure."""
    ids = {body["id"] for body in bodies if "id" in body}
    by_id = {body["id"]: body for body in standing if body.get("id") in ids}
    free: dict[str, deque[_Body]] = {}
    for body in standing:
        if body.get("id") not in ids:
            free.setdefault(_structure(body), deque()).append(body)
    return [
        by_id.get(body["id"]) if "id" in body else _take(free.get(_structure(body)))
        for body in bodies
    ]


def _take(alike: deque[_Body] | None) -> _Body | None:
    return alike.popleft() if alike else None


def _structure(body: _Body) -> str:
    return canonical({key: value for key, value in body.items() if key != "id"})


def _trigger(line: Line, body: _Body, met: _Body | None) -> PlannedTrigger:
    if met is not None and "id" not in body:
        body = {**body, "id": met["id"]} if "id" in met else body
        return PlannedTrigger(line=line, body=body, item=_item(line, body, "adopt"))
    item = _item(line, body, "create")
    if met is not None:
        item = compared(item, differences(met, body))
    return PlannedTrigger(line=line, body=body, item=item)


def _item(line: Line | None, body: _Body, action: PlannedAction) -> Item:
    name = body.get("name")
    return Item(
        kind="trigger",
        name=name if isinstance(name, str) else "",
        table=body["table"],
        trigger_id=body.get("id"),
        line=line.number if line else None,
        action=action,
    )


def _deleted(body: _Body) -> Item:
    gone = Change(op="remove", pointer="", before=body)
    return replace(_item(None, body, "delete"), changes=(gone,))


def _in_standing_order(
    triggers: Sequence[PlannedTrigger], met: Sequence[_Body | None], standing: Sequence[_Body]
) -> list[PlannedTrigger]:
    """Return the triggers where they stand, new ones behind; those of no line stay as they are."""
    planned = {id(body): trigger for trigger, body in zip(triggers, met, strict=True)}
    kept = [
        planned.get(id(body))
        or PlannedTrigger(line=None, body=body, item=_item(None, body, "noop"))
        for body in standing
    ]
    return [*kept, *(one for one, body in zip(triggers, met, strict=True) if body is None)]


def _table_item(
    head: Head, line: Line, standing: Sequence[_Body], met: Sequence[_Body | None]
) -> Item:
    item = Item(kind="table", name=head.name, line=line.number, action="create")
    if head.stored is None:
        return item
    order = _order_changes(standing, [body for body in met if body is not None])
    return compared(item, [*table_changes(head, head.stored), *order])


def _order_changes(standing: Sequence[_Body], met: Sequence[_Body]) -> Iterator[Change]:
    told = {id(body): body.get("id") for body in met}
    before = [id(body) for body in standing if id(body) in told]
    yield from moves("/triggers", before, [*map(id, met)], told)
