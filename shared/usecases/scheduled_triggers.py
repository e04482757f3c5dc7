"""Schedule triggers as the scheduler meets them in a table: ready with their state, or broken."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import Connection

from shared.domain.definitions import definition_body, definition_hash
from shared.domain.records import CustomTable
from shared.domain.triggers import ReadTrigger, Trigger, TriggerState, read_triggers
from shared.domain.work import Reference
from shared.observability import tracing
from shared.observability.trace_ids import Row
from shared.queries.definitions import store_definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A valid trigger, disabled ones too, of a table, with its state."""

    table: CustomTable
    trigger: Trigger
    state: TriggerState

    @property
    def is_clock(self) -> bool:
        """Whether it fires by the clock, without a record."""
        return self.trigger.date_column is None

    @property
    def consumes(self) -> bool:
        """Whether overdue values are still to be entered in its ledger."""
        return self.state.backlog is not None and self.state.backlog.mode == "consume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A stored trigger that the scheduler passes by, and why: at least one stable code."""

    read: ReadTrigger
    error_codes: list[str]


def schedule_triggers(table: CustomTable, states: Iterable[TriggerState]) -> list[Ready | Broken]:
    """Return the table's triggers on schedule in the order of its list; never raises.

    ``states`` are those that are not retired.
    """
    by_id = {state.trigger_id: state for state in states}
    stored = [] if table.triggers is None else table.triggers
    return [
        _meet(table, read, by_id)
        for read in read_triggers(stored, table.columns, stored=True)
        if read.is_schedule
    ]


def _meet(table: CustomTable, read: ReadTrigger, by_id: dict[str, TriggerState]) -> Ready | Broken:
    if read.trigger is None:
        return Broken(read=read, error_codes=read.error_codes)
    state = by_id.get(read.trigger_id or "")
    if state is None or state.kind != read.trigger.kind:
        return Broken(read=read, error_codes=["schedule_state_missing"])
    return Ready(table=table, trigger=read.trigger, state=state)


def enabled_triggers(met: Iterable[Ready | Broken]) -> list[Ready]:
    """Return the triggers that the scheduler evaluates, by ref.

    Every transaction enters ledger rows in this order, so that two never wait in a circle.
    """
    ready = [one for one in met if isinstance(one, Ready) and one.trigger.enabled]
    return sorted(ready, key=lambda one: one.state.ref)


def scanned_triggers(met: Iterable[Ready | Broken]) -> list[Ready]:
    """Return the triggers that a tick looks at, by ref.

    Beside the enabled ones those with values to consume: by the time they are enabled, they may be
    edited too. Nothing else comes of them.
    """
    ready = [one for one in met if isinstance(one, Ready)]
    wanted = [one for one in ready if one.trigger.enabled or one.consumes]
    return sorted(wanted, key=lambda one: one.state.ref)


def note_made(ready: Ready, runs: Sequence[Reference]) -> None:
    """Let traces know of runs that this transaction makes for the trigger."""
    if tracing.is_on():
        for run in runs:
            row = Row(ready.table.tenant_id, "trigger_run", run.id)
            tracing.current().made("fire", row)


def freeze(conn: Connection, ready: Ready) -> bytes:
    """Store what runs of the trigger execute from now on; return the hash that names it."""
    body = definition_body(ready.trigger.raw, ready.table.columns)
    hash = definition_hash(body)
    store_definition(conn, tenant_id=ready.table.tenant_id, hash=hash, body=body)
    return hash
