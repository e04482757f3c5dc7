"""What materialize_slots is to do, read from its settings and from the tables as they are.

At save and at execution alike: tables are altered in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.actions.action import Config
from shared.actions.ruled_tables import ruled_faults
from shared.domain.columns import Column, ColumnType
from shared.domain.conditions import Predicate, read_when
from shared.domain.faults import cut
from shared.domain.records import CustomTable
from shared.domain.rosters import OPEN, RosterColumns, SlotColumns
from shared.errors import Fault

FindTable = Callable[[UUID], CustomTable | None]
"""Gives the live table of the tenant."""
NameColumns = Callable[[CustomTable], tuple[Column, ...]]
"""Gives the columns of a table under the names that the settings use."""


def as_they_are(table: CustomTable) -> tuple[Column, ...]:
    """Return the columns of a table under their own names."""
    return table.columns


_DATES: tuple[ColumnType, ...] = ("date", "datetime")
_TIMES: tuple[ColumnType, ...] = ("text", "select")
_ROSTER_TYPES: Mapping[str, tuple[ColumnType, ...]] = {
    "resource": ("text", "number", "checkbox", "select", "date", "datetime", "json"),
    "weekday": ("text", "number", "select", "json"),
    "date": _DATES,
    "start": _TIMES,
    "end": _TIMES,
    "valid_from": _DATES,
    "valid_to": _DATES,
}
_TARGET_TYPES: Mapping[str, tuple[ColumnType, ...]] = {
    "resource": _ROSTER_TYPES["resource"],
    "start": ("datetime", "text"),
    "end": ("datetime", "text"),
    "status": ("select",),
}
_TEXTS: tuple[ColumnType, ...] = ("text", "select", "date", "datetime")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """Roster and table of slots, and what their columns are."""

    roster: CustomTable
    lines: RosterColumns
    when: tuple[Predicate, ...]
    target: CustomTable
    slots: SlotColumns


def read_plan(
    config: Config, find_table: FindTable, name_columns: NameColumns = as_they_are
) -> tuple[SlotPlan | None, list[Fault]]:
    """Return the plan that settings of the right form make, or None and their faults."""
    raw_roster, raw_target = config["roster"], config["target"]
    roster = find_table(UUID(raw_roster["table_id"]))
    target = find_table(UUID(raw_target["table_id"]))
    faults = list(_table_faults(roster, target))
    if ("weekday" in raw_roster) == ("date" in raw_roster):
        message = "materialize_slots roster must have either weekday or date"
        faults.append(_fault("action_invalid", "/roster", message))
    if roster is None or target is None or faults:
        return None, faults
    named = name_columns(roster)
    lines, faults = _columns(raw_roster, named, "roster", _ROSTER_TYPES)
    slots, found = _columns(raw_target, name_columns(target), "target", _TARGET_TYPES)
    faults += [*found, *_slot_faults(lines, slots)]
    when, found = read_when(raw_roster.get("when", []), named, on=None, pointer="/roster/when")
    faults += found
    if faults:
        return None, faults
    plan = SlotPlan(
        roster=roster,
        lines=RosterColumns(
            resource=lines["resource"],
            weekday=lines.get("weekday"),
            date=lines.get("date"),
            start=lines["start"],
            end=lines["end"],
            valid_from=lines.get("valid_from"),
            valid_to=lines.get("valid_to"),
        ),
        when=when,
        target=target,
        slots=SlotColumns(**slots),
    )
    return plan, []


def _table_faults(roster: CustomTable | None, target: CustomTable | None) -> Iterator[Fault]:
    for part, table in (("roster", roster), ("target", target)):
        if table is None:
            message = f"materialize_slots {part} table_id names no table of this tenant"
            yield _fault("action_table_unknown", f"/{part}/table_id", message)
        else:
            yield from ruled_faults(
                f"materialize_slots {part} table_id", table, f"/{part}/table_id"
            )
    if target is None or roster is None:
        return
    if roster.id == target.id:
        message = "materialize_slots must not write into its roster"
        yield _fault("slots_into_roster", "/target/table_id", message)
    if target.approval == "required":
        message = (
            "materialize_slots cannot write into a table whose approval is required:"
            " slots are written as a whole, and cannot wait for a review each"
        )
        yield _fault("slots_need_approval", "/target/table_id", message)


def _columns(
    raw: Mapping[str, Any],
    named: Sequence[Column],
    part: str,
    types: Mapping[str, tuple[ColumnType, ...]],
) -> tuple[dict[str, Column], list[Fault]]:
    """Return the named columns of a table by what they are to the action, and what is wrong."""
    by_name = {column.name: column for column in named}
    columns: dict[str, Column] = {}
    faults = []
    for key in types:
        if key not in raw:
            continue
        column, pointer = by_name.get(raw[key]), f"/{part}/{key}"
        if column is None:
            message = f"materialize_slots {part} {key}: the table has no column '{cut(raw[key])}'"
            faults.append(_fault("slots_column_missing", pointer, message))
        elif column.type not in types[key]:
            message = (
                f"materialize_slots {part} {key}: column '{column.name}' is of type {column.type},"
                f" and must be one of: {', '.join(types[key])}"
            )
            faults.append(_fault("slots_column_wrong_type", pointer, message))
        else:
            columns[key] = column
    return columns, faults


def _slot_faults(lines: Mapping[str, Column], slots: Mapping[str, Column]) -> Iterator[Fault]:
    """Give what is wrong with the columns of slots, beside their types alone."""
    taken: dict[str, str] = {}
    for key, column in slots.items():
        if column.id in taken:
            message = f"materialize_slots target {key} and {taken[column.id]} are one column"
            yield _fault("slots_column_twice", f"/target/{key}", message)
        taken.setdefault(column.id, key)
    status = slots.get("status")
    if status is not None and OPEN not in status.options:
        message = f"materialize_slots target status: '{status.name}' has no option '{OPEN}'"
        yield _fault("slots_status_not_open", "/target/status", message)
    resource, kept = lines.get("resource"), slots.get("resource")
    if resource is not None and kept is not None and not _takes(kept, resource):
        message = (
            f"materialize_slots target resource: a {kept.type} column does not take"
            f" the resources of a {resource.type} column"
        )
        yield _fault("slots_column_wrong_type", "/target/resource", message)


def _takes(target: Column, roster: Column) -> bool:
    """Tell whether a column may hold what another one holds; whether it does, each line tells."""
    if "json" in (target.type, roster.type) or target.type == roster.type:
        return True
    return target.type in _TEXTS and roster.type in _TEXTS


def _fault(code: str, pointer: str, message: str) -> Fault:
    return Fault(code=code, pointer=pointer, message=message)
