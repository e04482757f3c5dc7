"""Set the triggers of a table: a full replace, checked and stored as a whole or not at all."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, get_args
from uuid import UUID

from psycopg import Connection

from shared.actions.action import Lookup
from shared.actions.lookups import Remembered
from shared.actions.registry import check_actions as check_registered_actions
from shared.domain.columns import Column
from shared.domain.commands import Command
from shared.domain.delays import actions_within
from shared.domain.faults import MAX_TOLD, child, in_document_order, under
from shared.domain.on_existing import FIRE, OnExisting
from shared.domain.records import CustomTable
from shared.domain.scp_rules import refuse_triggers
from shared.domain.triggers import (
    EVENTS,
    On,
    ReadTrigger,
    ScheduleKind,
    Trigger,
    TriggerState,
    kind_change_faults,
    read_triggers,
)
from shared.domain.workflows import Workflow
from shared.errors import Conflict, Fault, InvalidInput, StaleVersion
from shared.queries.commands import find_command
from shared.queries.custom_tables import find_outline, get_table, lock_table, update_definition
from shared.queries.secrets import find_secret
from shared.queries.tenants import share_tenant
from shared.queries.trigger_states import lock_all_states
from shared.queries.workflows import find_workflow
from shared.usecases.align_backlogs import align_backlogs, check_backlogs
from shared.usecases.align_states import align_states, is_same_json
from shared.usecases.link_checks import unknown_links
from shared.usecases.tenant_limits import check_trigger_room

MAX_TRIGGERS = 100
"""Triggers of one table."""

_KINDS: tuple[ScheduleKind, ...] = get_args(ScheduleKind)


class CheckActions(Protocol):
    """What the registry says of a trigger's actions; pointers are the trigger's."""

    def __call__(
        self,
        raw_actions: object,
        *,
        on: On,
        schedule_kind: ScheduleKind | None,
        columns: tuple[Column, ...],
        lookup: Lookup,
    ) -> list[Fault]:
        """Return all faults, in document order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What an author of a table's triggers may name, for the checks of actions.

    ``channel_id`` is the channel that the author is bound to, None for the whole tenant.
    """

    conn: Connection
    table: CustomTable
    channel_id: UUID | None

    def find_table(self, table_id: UUID) -> CustomTable | None:
        """Return the tenant's live table without triggers, or None.

        Outside the channel only one that was named before.
        """
        found = find_outline(self.conn, table_id)
        if found is None or found.trashed_at or found.tenant_id != self.table.tenant_id:
            return None
        is_near = self.channel_id in (None, found.channel_id)
        return found if is_near or _touches(self.table, found.id) else None

    def find_command(self, name: str) -> Command | None:
        """Return the tenant's command, or None."""
        return find_command(self.conn, self.table.tenant_id, name)

    def has_secret(self, name: str) -> bool:
        """Return whether the tenant has a secret of this name."""
        return find_secret(self.conn, self.table.tenant_id, name) is not None

    def find_workflow(self, name: str) -> Workflow | None:
        """Return the tenant's workflow, or None."""
        return find_workflow(self.conn, self.table.tenant_id, name)


def _touches(table: CustomTable, table_id: UUID) -> bool:
    """Tell whether a stored trigger of the table creates records in another, or slots of it."""
    return any(
        isinstance(holder, dict) and str(holder.get("table_id")).lower() == str(table_id)
        for trigger in table.triggers or []
        if isinstance(trigger, dict)
        for outer in trigger.get("actions") or []
        for _, action in actions_within(outer)
        if isinstance(action, dict)
        for holder in (action, action.get("roster"), action.get("target"))
    )


def new_trigger_id() -> str:
    """Return a trigger id that nobody has guessed."""
    return f"trg_{secrets.token_hex(6)}"


def trigger_list_faults(
    conn: Connection,
    table: CustomTable,
    states: Sequence[TriggerState],
    raw_triggers: object,
    *,
    now: datetime,
    channel_id: UUID | None = None,
) -> tuple[Fault, ...]:
    """Return what ``set_triggers`` would refuse a list for, () for a valid one; nothing is written.

    A Conflict is one fault of the whole list. ``states`` are all that the table ever had.
    """
    try:
        accepted_triggers(conn, table, states, raw_triggers, now=now, channel_id=channel_id)
    except InvalidInput as error:
        return error.faults
    except Conflict as error:
        return (Fault(code=error.code, pointer="/triggers", message=error.message),)
    return ()


def set_triggers(
    conn: Connection,
    table_id: UUID,
    raw_triggers: object,
    *,
    now: datetime,
    channel_id: UUID | None = None,
    expected_revision: int | None = None,
    on_existing: OnExisting = FIRE,
    check_actions: CheckActions = check_registered_actions,
    make_id: Callable[[], str] = new_trigger_id,
) -> CustomTable:
    """Replace the triggers of a live table and return it.

    An entry without ``id`` is a new trigger. States are made, edited, retired and revived as spec 1
    §4 says; saving what is stored changes nothing, the revision neither. ``channel_id`` is the
    channel that the author is bound to, None for the whole tenant. ``on_existing``: what becomes of
    values that are overdue already, see ``align_backlogs``. Raises InvalidInput with every fault in
    document order (pointers begin with ``/triggers``), Conflict ``triggers_too_many`` or
    ``values_being_consumed``, NotFound, StaleVersion.
    """
    with conn.transaction():
        # Nobody renames columns of tables that the actions name, before this has committed.
        share_tenant(conn, get_table(conn, table_id).tenant_id)
        table = lock_table(conn, table_id)
        if expected_revision not in (None, table.revision):
            raise StaleVersion(f"table {table_id} was changed meanwhile")
        states = lock_all_states(conn, table_id)
        read = accepted_triggers(
            conn,
            table,
            states,
            raw_triggers,
            now=now,
            channel_id=channel_id,
            check_actions=check_actions,
        )
        triggers = _identified(read, states, make_id)
        edited = replace(table, triggers=[dict(trigger.raw) for trigger in triggers])
        align_states(conn, table, triggers, states, now=now)
        align_backlogs(conn, table, triggers, states, on_existing, now=now)
        if is_same_json(edited.triggers, table.triggers):
            return table
        return update_definition(conn, edited, now=now)


def accepted_triggers(
    conn: Connection,
    table: CustomTable,
    states: Sequence[TriggerState],
    raw_triggers: object,
    *,
    now: datetime,
    channel_id: UUID | None = None,
    check_actions: CheckActions = check_registered_actions,
) -> list[Trigger]:
    """Return the triggers of a list that the table may have, new ones without an id.

    Nothing is written. ``states`` are all that the table ever had. Raises as ``set_triggers`` does.
    """
    lookup = Remembered(_Stored(conn=conn, table=table, channel_id=channel_id))
    triggers = _checked(conn, raw_triggers, table, states, check_actions, lookup)
    check_trigger_room(
        conn, table.tenant_id, before=_length(table.triggers), after=len(triggers), now=now
    )
    check_backlogs(table, triggers, states)
    return triggers


def _length(stored: object) -> int:
    return len(stored) if isinstance(stored, list) else 0


def _checked(
    conn: Connection,
    raw: object,
    table: CustomTable,
    states: Sequence[TriggerState],
    check_actions: CheckActions,
    lookup: Lookup,
) -> list[Trigger]:
    """Return the triggers of a valid list; raises InvalidInput with all faults of any other."""
    if not isinstance(raw, list) or len(raw) > MAX_TRIGGERS:
        message = f"triggers must be a list of at most {MAX_TRIGGERS} triggers"
        raise InvalidInput.of(
            [Fault(code="triggers_invalid", pointer="/triggers", message=message)]
        )
    refuse_triggers(table, raw)
    kinds = {state.trigger_id: state.kind for state in states}
    read = read_triggers(raw, table.columns)
    faults: list[Fault] = []
    for index, one in enumerate(read):
        found = [*one.faults, *kind_change_faults(one, kinds)]
        if isinstance(one.raw, dict):
            found += _action_faults(one, table, check_actions, lookup)
        faults += under(child("/triggers", index), in_document_order(one.raw, found))
        if len(faults) >= MAX_TOLD:
            break
    faults = faults or list(unknown_links(conn, table.tenant_id, _pointed(raw), on_events=False))
    if faults:
        raise InvalidInput.of(faults[:MAX_TOLD])
    return [one.trigger for one in read if one.trigger is not None]


def _pointed(triggers: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the actions of valid triggers, each with its pointer."""
    for index, trigger in enumerate(triggers):
        for position, action in enumerate(trigger.get("actions") or []):
            yield f"/triggers/{index}/actions/{position}", action


def _action_faults(
    read: ReadTrigger, table: CustomTable, check_actions: CheckActions, lookup: Lookup
) -> list[Fault]:
    assert isinstance(read.raw, dict)
    on = read.raw.get("on")
    kind = read.schedule_type if read.is_schedule else None
    return check_actions(
        read.raw.get("actions"),
        on=on if on in EVENTS else "schedule",
        schedule_kind=next((known for known in _KINDS if known == kind), None),
        columns=table.columns,
        lookup=lookup,
    )


def _identified(
    triggers: Sequence[Trigger], states: Sequence[TriggerState], make_id: Callable[[], str]
) -> list[Trigger]:
    """Return the triggers with an id each; a new one was never one of the table."""
    taken = {state.trigger_id for state in states} | {trigger.id for trigger in triggers}
    identified = []
    for trigger in triggers:
        trigger_id = trigger.id
        while trigger_id is None:
            made = make_id()
            trigger_id = None if made in taken else made
        taken.add(trigger_id)
        identified.append(trigger.identified_as(trigger_id))
    return identified
