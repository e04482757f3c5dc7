"""Apply: exactly the plan that it is given, in one transaction, through the use cases of each kind.

What depends comes after what it depends on: commands and tables, workflows behind those that they
start, then rules and triggers. A stage with faults is the last one; its faults are told together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from psycopg import Connection

from shared.domain.bundle_references import named_tables, with_ids
from shared.domain.bundles import Kind, Line
from shared.domain.faults import MAX_TOLD, under
from shared.domain.on_existing import FIRE, OnExisting
from shared.domain.planned import CHANGING, Item, PlannedTable, PlannedTrigger
from shared.domain.strict_json import Json
from shared.domain.workflows import started_in
from shared.errors import Conflict, Fault, InvalidInput, StaleVersion
from shared.lifecycle import monotonic
from shared.queries.table_names import lock_tables_named
from shared.queries.tenants import lock_tenant
from shared.usecases.bundle_state import Reach, tables_named_by
from shared.usecases.manage_commands import alter_command, register_command
from shared.usecases.manage_rules import RuleDraft, make_rule, replace_rule
from shared.usecases.manage_tables import change_table, create_table
from shared.usecases.manage_workflows import make_workflow, replace_workflow
from shared.usecases.plan_bundle import MarkedPlan, mark_plan, read_lines
from shared.usecases.set_triggers import set_triggers

SECONDS = 30.0
"""No step of an apply begins after that: its transaction holds locks."""

_Step = Callable[[], None]
"""Stores something; its faults point into the document."""


def apply_bundle(
    conn: Connection,
    reach: Reach,
    document: bytes,
    *,
    fingerprint: str,
    now: datetime,
    on_existing: OnExisting = FIRE,
) -> tuple[Item, ...]:
    """Apply a document whose plan had this fingerprint; return the items, new triggers with ids.

    Whole or not at all; ``on_existing`` as it was planned. Raises Conflict ``plan_stale`` when the
    document or anything that it names is not what it was, InvalidInput with faults whose pointers
    begin with the number of a line, Conflict as the limits of a tenant and ``set_triggers`` do, and
    ``bundle_too_slow``.
    """
    lines = read_lines(document, reach)
    with conn.transaction():
        # In this order whoever else locks a tenant and its tables does: nobody waits in a circle.
        lock_tenant(conn, reach.tenant_id)
        lock_tables_named(conn, reach.tenant_id, sorted(tables_named_by(lines)))
        marked = mark_plan(conn, reach, document, lines, on_existing)
        if marked.fingerprint != fingerprint:
            raise _stale()
        names = {name: table_id for table_id, name in marked.state.stored.names.items()}
        work = _Work(conn=conn, reach=reach, marked=marked, now=now, tables=names)
        try:
            work.carry_out()
        except StaleVersion as error:
            raise _stale() from error
        return work.items()


def _stale() -> Conflict:
    message = "the document, or something that it names, is not what it was when this was planned"
    return Conflict(message, code="plan_stale")


@dataclass(slots=True, kw_only=True)
class _Work:
    """One apply: what is to be stored, and the ids that its tables and triggers have by now.

    A name means the table that it meant in the plan: tables may be renamed meanwhile.
    """

    conn: Connection
    reach: Reach
    marked: MarkedPlan
    now: datetime
    tables: dict[str, UUID]
    trigger_ids: dict[int, str] = field(default_factory=dict)
    until: float = field(default_factory=lambda: monotonic() + SECONDS)

    def carry_out(self) -> None:
        """Store all of it."""
        self._stage([*self._resources("command", self._store_command), *self._tables()])
        self._stage(self._resources("workflow", self._store_workflow))
        self._stage([*self._resources("trigger_rule", self._store_rule), *self._triggers()])

    def items(self) -> tuple[Item, ...]:
        """Return what became of the plan's items."""
        return tuple(
            replace(item, trigger_id=self.trigger_ids.get(item.line or 0, item.trigger_id))
            for item in self.marked.plan.items
        )

    def _stage(self, steps: Iterable[_Step]) -> None:
        faults: list[Fault] = []
        for store in steps:
            if monotonic() > self.until:
                message = (
                    f"the bundle was not applied within {SECONDS:.0f} s; nothing is stored. "
                    "apply it in smaller parts"
                )
                # Not "try again": whoever did, would hold the tenant's row as long once more.
                raise Conflict(message, code="bundle_too_slow")
            try:
                store()
            except InvalidInput as error:
                faults += error.faults
        if faults:
            faults.sort(key=lambda fault: int(fault.pointer.split("/")[1]))
            raise InvalidInput.of(faults[:MAX_TOLD])

    def _resources(self, kind: Kind, store: Callable[[Line], None]) -> Iterator[_Step]:
        lines = [
            one.line
            for one in self.marked.plan.resources
            if one.line.kind == kind and one.item.action in CHANGING
        ]
        for line in _in_order_of_starts(lines) if kind == "workflow" else lines:
            yield partial(_on_line, line, store)

    def _tables(self) -> Iterator[_Step]:
        for table in self.marked.plan.tables:
            if table.line is not None and table.item and table.item.action in CHANGING:
                yield partial(_on_line, table.line, partial(self._store_table, table))

    def _triggers(self) -> Iterator[_Step]:
        for table in self.marked.plan.tables:
            if table.sets_triggers:
                yield partial(self._store_triggers, table)

    def _store_command(self, line: Line) -> None:
        stored = self.marked.state.stored.commands.get(line.body["name"])
        if stored is None:
            register_command(self.conn, tenant_id=self.reach.tenant_id, now=self.now, **line.body)
            return
        alter_command(
            self.conn,
            tenant_id=self.reach.tenant_id,
            command_id=stored.id,
            url=line.body["url"],
            input_schema=line.body["input_schema"],
            now=self.now,
            expected_revision=stored.revision,
        )

    def _store_table(self, table: PlannedTable, line: Line) -> None:
        if table.stored is None:
            made = create_table(
                self.conn,
                tenant_id=self.reach.tenant_id,
                channel_id=self.reach.channel_id or table.channel_id,
                name=table.name,
                raw_columns=line.body["columns"],
                columns_from_elsewhere=True,
                approval=table.approval,
                now=self.now,
            )
            self.tables[table.name] = made.id
            return
        change_table(
            self.conn,
            table.stored.id,
            raw_columns=line.body["columns"],
            columns_from_elsewhere=True,
            approval=table.approval,
            now=self.now,
        )

    def _store_workflow(self, line: Line) -> None:
        body = with_ids(line.body, self.tables)
        stored = self.marked.state.stored.workflows.get(line.body["name"])
        if stored is None:
            make_workflow(self.conn, tenant_id=self.reach.tenant_id, now=self.now, **body)
            return
        replace_workflow(
            self.conn,
            tenant_id=self.reach.tenant_id,
            workflow_id=stored.id,
            now=self.now,
            expected_version=None,  # a renamed column of this document may have made one
            **body,
        )

    def _store_rule(self, line: Line) -> None:
        draft = RuleDraft(**with_ids(line.body, self.tables))
        stored = self.marked.state.stored.rules.get(line.body["name"])
        if stored is None:
            make_rule(self.conn, tenant_id=self.reach.tenant_id, draft=draft, now=self.now)
            return
        replace_rule(
            self.conn,
            tenant_id=self.reach.tenant_id,
            rule_id=stored.id,
            draft=draft,
            now=self.now,
            expected_revision=None,
        )

    def _store_triggers(self, table: PlannedTable) -> None:
        raw = [_stored_trigger(one, self.tables) for one in table.triggers]
        try:
            saved = set_triggers(
                self.conn,
                self.tables[table.name],
                raw,
                now=self.now,
                channel_id=self.reach.channel_id,
                on_existing=self.marked.on_existing,
            )
        except InvalidInput as error:
            raise InvalidInput.of([_of_a_line(fault, table) for fault in error.faults]) from error
        for one, trigger in zip(table.triggers, saved.triggers or [], strict=True):
            if one.line is not None:
                self.trigger_ids[one.line.number] = trigger["id"]


def _on_line(line: Line, store: Callable[[Line], None]) -> None:
    """Store a line; its faults point into the document."""
    try:
        store(line)
    except InvalidInput as error:
        told = [_by_name(fault, line) for fault in error.faults]
        raise InvalidInput.of(under(f"/{line.number}", told)) from error


def _of_a_line(fault: Fault, table: PlannedTable) -> Fault:
    """Return a fault of a list of triggers as one of the line that it is about.

    That of the list, or of a trigger that stands and has no line, is told of the first line.
    """
    index, _, rest = fault.pointer.removeprefix("/triggers").removeprefix("/").partition("/")
    line = table.triggers[int(index)].line if index else None
    if line is None:
        lines = [table.line, *(one.line for one in table.triggers)]
        first = next(one for one in lines if one is not None)
        return replace(fault, pointer=f"/{first.number}")
    within = replace(fault, pointer=f"/{rest}" if rest else "")
    return under(f"/{line.number}", [_by_name(within, line)])[0]


def _by_name(fault: Fault, line: Line) -> Fault:
    """Return a fault that points at the id of a table where the line has its name."""
    if not fault.pointer.endswith("/table_id"):
        return fault
    named = fault.pointer.removesuffix("_id")
    is_named = any(pointer == named for pointer, _ in named_tables(line.body))
    return replace(fault, pointer=named) if is_named else fault


def _stored_trigger(planned: PlannedTrigger, ids: Mapping[str, UUID]) -> Json:
    body = with_ids(planned.body, ids)
    return {key: value for key, value in body.items() if key != "table"}


def _in_order_of_starts(lines: Sequence[Line]) -> list[Line]:
    """Return workflows behind those that they start; a circle is refused when it is stored."""
    by_name = {line.body["name"]: line for line in lines}
    ordered: dict[str, Line] = {}
    pending = [(line, False) for line in reversed(lines)]
    seen: set[str] = set()
    while pending:
        line, is_behind = pending.pop()
        name = line.body["name"]
        if is_behind:
            ordered[name] = line
        elif name not in seen:
            seen.add(name)
            started = [by_name[one] for _, one in started_in(line.body["nodes"]) if one in by_name]
            pending += [(line, True), *((one, False) for one in started)]
    return list(ordered.values())
