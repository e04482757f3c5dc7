"""Plan: what a bundle would change, what that leads to, and the mark of what it was made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from psycopg import Connection

from shared.domain.bundles import OF_A_CHANNEL, Line, read_document
from shared.domain.differences import canonical
from shared.domain.faults import MAX_TOLD
from shared.domain.on_existing import FIRE, OnExisting
from shared.domain.plan import make_plan
from shared.domain.planned import CHANGING, Plan, PlannedTable, PlannedTrigger
from shared.domain.records import CustomTable
from shared.domain.scp_rules import refuse_triggers
from shared.domain.triggers import ReadTrigger, TriggerState, read_trigger
from shared.errors import Conflict, Fault, InvalidInput
from shared.lifecycle import monotonic
from shared.usecases.align_backlogs import check_backlogs
from shared.usecases.bundle_state import Reach, State, read_state
from shared.usecases.consequences import COUNT_SECONDS, Consequence, consequences_of
from shared.usecases.preview import snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPlan:
    """A plan, with the mark of the document and of all that it was compared with."""

    plan: Plan
    state: State
    on_existing: OnExisting
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is to be told of the trigger on a line that changes.

    ``problems`` are what its saving will be refused for, as far as that is known before; their
    pointers lead into the line. Only a trigger without any, on schedule, has a ``consequence``.
    """

    problems: tuple[Fault, ...]
    consequence: Consequence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePlan:
    """The answer of a plan; ``outlooks`` are by the number of the line."""

    plan: Plan
    fingerprint: str
    outlooks: Mapping[int, Outlook]


def plan_bundle(
    conn: Connection,
    reach: Reach,
    document: bytes,
    *,
    now: datetime,
    on_existing: OnExisting = FIRE,
) -> BundlePlan:
    """Return what applying a document at ``now`` would change, from one snapshot; store nothing.

    ``on_existing``: what becomes of overdue values of the date triggers that it concerns.
    Raises InvalidInput as ``read_document`` and ``make_plan`` do. No transaction may be open.
    """
    lines = read_lines(document, reach)
    with snapshot(conn):
        marked = mark_plan(conn, reach, document, lines, on_existing)
        outlooks = dict(_outlooks(conn, marked, reach.tenant_id, now=now))
    return BundlePlan(plan=marked.plan, fingerprint=marked.fingerprint, outlooks=outlooks)


def read_lines(document: bytes, reach: Reach) -> list[Line]:
    """Return the lines of a document; that of a channel may hold less. Raises InvalidInput."""
    if reach.channel_id is None:
        return read_document(document)
    lines = read_document(document, kinds=OF_A_CHANNEL)
    message = "the bundle of a channel makes tables of that channel alone"
    faults = [
        Fault(code="channel_forbidden", pointer=f"/{line.number}/channel_id", message=message)
        for line in lines
        if line.body.get("channel_id", str(reach.channel_id)) != str(reach.channel_id)
    ]
    if faults:
        raise InvalidInput.of(faults[:MAX_TOLD])
    return lines


def mark_plan(
    conn: Connection,
    reach: Reach,
    document: bytes,
    lines: Sequence[Line],
    on_existing: OnExisting,
) -> MarkedPlan:
    """Return the plan of a document against what stands now, within the caller's transaction."""
    state = read_state(conn, reach, lines)
    plan = make_plan(lines, state.stored)
    # The items too: of retired triggers, of whose kinds a plan depends, no revision tells.
    marks = [
        sha256(document).hexdigest(),
        [str(reach.tenant_id), str(reach.channel_id)],
        asdict(on_existing),
        state.marks(lines),
        [asdict(item) for item in plan.items],
    ]
    fingerprint = sha256(canonical(marks).encode("utf-8", "surrogatepass")).hexdigest()
    return MarkedPlan(plan=plan, state=state, on_existing=on_existing, fingerprint=fingerprint)


def _outlooks(
    conn: Connection, marked: MarkedPlan, tenant_id: UUID, *, now: datetime
) -> Iterator[tuple[int, Outlook]]:
    until = monotonic() + COUNT_SECONDS
    for table in marked.plan.tables:
        states = {
            state.trigger_id: state
            for state in marked.state.states
            if table.stored is not None and state.table_id == table.stored.id
        }
        as_planned = _as_planned(table, tenant_id, now=now)
        for trigger in table.triggers:
            if trigger.line is None or trigger.item.action not in CHANGING:
                continue
            read = _read(trigger, as_planned)
            told = consequences_of(
                conn,
                as_planned,
                [] if read.trigger is None else [read.trigger],
                states,
                now=now,
                on_existing=marked.on_existing,
                seconds=max(0.0, until - monotonic()),
            )
            problems = (*read.faults, *_refusals(read, table.stored, states))
            consequence = told[0] if told and not problems else None
            yield trigger.line.number, Outlook(problems=problems, consequence=consequence)


def _refusals(
    read: ReadTrigger, stored: CustomTable | None, states: Mapping[str, TriggerState]
) -> Iterator[Fault]:
    """Yield why the table as it stands would refuse a trigger that may be well for another."""
    if stored is None:
        return
    try:
        refuse_triggers(stored, [read.raw])
        state = states.get(read.trigger_id or "")
        if read.trigger is not None and state is not None:
            check_backlogs(stored, [read.trigger], [state])
    except InvalidInput as error:
        yield from (replace(fault, pointer="") for fault in error.faults)
    except Conflict as error:
        yield Fault(code=error.code, pointer="", message=error.message)


def _read(planned: PlannedTrigger, table: CustomTable) -> ReadTrigger:
    raw = {key: value for key, value in planned.body.items() if key != "table"}
    return read_trigger(raw, table.columns)


def _as_planned(table: PlannedTable, tenant_id: UUID, *, now: datetime) -> CustomTable:
    """Return a table as it would be; one that is not made yet has an id that no row names."""
    stored = table.stored
    return CustomTable(
        id=stored.id if stored else UUID(int=0),
        tenant_id=tenant_id,
        channel_id=table.channel_id,
        name=table.name,
        columns=table.columns,
        columns_made=stored.columns_made if stored else len(table.columns),
        approval=table.approval,
        scp_ruled=stored is not None and stored.scp_ruled,
        triggers=None,
        revision=stored.revision if stored else 1,
        created_at=stored.created_at if stored else now,
        updated_at=now,
        trashed_at=None,
    )
