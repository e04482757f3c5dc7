"""The simulation: what triggers that are not saved yet would do, over the whole table.

The preview's arms by the preview's evaluator, as if the list were saved now: a trigger under the id
of a stored one has its state and its ledger. Read only; counts, codes and instants, never a record
or a cell (spec 1 §9).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.domain.triggers import ReadTrigger, TriggerState, read_triggers
from shared.errors import Fault, InvalidInput
from shared.evaluator.date_trigger import NO_RECORDS
from shared.lifecycle import monotonic
from shared.queries.custom_tables import get_table
from shared.queries.records import count_live
from shared.queries.trigger_states import list_all_states
from shared.schedule import upcoming_windows
from shared.schedule.local_times import LocalWindow, local_windows
from shared.schedule.model import DateColumnReached, TableSchedule
from shared.usecases.align_states import state_after
from shared.usecases.consequences import COUNT_SECONDS, Consequence, consequences_of
from shared.usecases.fire_dates import judge_readable
from shared.usecases.preview import snapshot
from shared.usecases.preview_arms import (
    Arm,
    class_counts,
    clock_arm,
    date_arm,
    invalid_arm,
    second,
)
from shared.usecases.scheduled_triggers import Broken, Ready
from shared.usecases.set_triggers import MAX_TRIGGERS, trigger_list_faults
from shared.usecases.walk import begin_walk, next_page

UPCOMING = 10
"""Windows that are told of a clock trigger."""

_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What a list of triggers would do, saved at ``evaluated_at``; ``triggers`` are JSON arms.

    ``faults`` are those for which the save would be refused, () if it would be taken.
    """

    table_id: UUID
    evaluated_at: datetime
    live_records: int
    triggers: list[Arm]
    faults: tuple[Fault, ...]


def simulate(
    conn: Connection,
    table: CustomTable,
    raw_triggers: object,
    *,
    channel_id: UUID | None = None,
    now: datetime | None = None,
    seconds: float = COUNT_SECONDS,
) -> Simulation:
    """Return what a list of triggers would do if it were saved at ``now`` (None: the server's).

    A broken trigger gets the invalid arm and hides no healthy one. Rows are counted for ``seconds``
    at most, first by class, then those ahead. ``channel_id`` as in ``set_triggers``. Raises
    NotFound; InvalidInput for what is no list, or too long a one. No transaction may be open.
    """
    now = server_now(conn) if now is None else now
    with snapshot(conn):
        table = get_table(conn, table.id)
        states = list_all_states(conn, [table.id])
        faults = trigger_list_faults(
            conn, table, states, raw_triggers, now=now, channel_id=channel_id
        )
        if not isinstance(raw_triggers, list) or len(raw_triggers) > MAX_TRIGGERS:
            raise InvalidInput.of(faults)
        live_records = count_live(conn, table.id)
        met = _meet(table, read_triggers(raw_triggers, table.columns), states, now=now)
        arms = _arms(conn, table, met, states, live_records, now=now, seconds=seconds)
    return Simulation(
        table_id=table.id,
        evaluated_at=now,
        live_records=live_records,
        triggers=arms,
        faults=faults,
    )


def _meet(
    table: CustomTable,
    read: Sequence[ReadTrigger],
    states: Sequence[TriggerState],
    *,
    now: datetime,
) -> list[Ready | Broken]:
    """Return the triggers on schedule with the states that the save would leave them."""
    by_id = {state.trigger_id: state for state in states}
    return [_ready(table, one, by_id, now=now) for one in read if one.is_schedule]


def _ready(
    table: CustomTable, read: ReadTrigger, by_id: Mapping[str, TriggerState], *, now: datetime
) -> Ready | Broken:
    if read.trigger is None:
        return Broken(read=read, error_codes=read.error_codes)
    state = by_id.get(read.trigger.id or "")
    if state is not None and state.kind != read.trigger.kind:
        return Broken(read=read, error_codes=["stored_schedule_invalid"])
    after = state_after(table, read.trigger, state, now=now)
    return Ready(table=table, trigger=read.trigger, state=after)


def _arms(
    conn: Connection,
    table: CustomTable,
    met: Sequence[Ready | Broken],
    states: Sequence[TriggerState],
    live_records: int,
    *,
    now: datetime,
    seconds: float,
) -> list[Arm]:
    until = monotonic() + seconds
    arms = [_arm(conn, one, live_records=live_records, until=until, now=now) for one in met]
    told = iter(
        consequences_of(
            conn,
            table,
            [one.trigger for one in met if isinstance(one, Ready)],
            {state.trigger_id: state for state in states},
            now=now,
            seconds=max(until - monotonic(), 0.0),
        )
    )
    return [
        arm | _ahead(next(told), one) if isinstance(one, Ready) else arm
        for one, arm in zip(met, arms, strict=True)
    ]


def _arm(
    conn: Connection, met: Ready | Broken, *, live_records: int, until: float, now: datetime
) -> Arm:
    if isinstance(met, Broken):
        return invalid_arm(met)
    schedule = met.trigger.schedule
    if isinstance(schedule, DateColumnReached) or schedule is None:
        counts = _count(conn, met, until=until, now=now)
        return date_arm(met, counts, live_records=live_records)
    return clock_arm(conn, met, now=now) | {"upcoming": _upcoming(schedule, met.state, now=now)}


def _count(conn: Connection, ready: Ready, *, until: float, now: datetime) -> dict[str, int]:
    """Return how many records are of each class, of all that could be looked at in time."""
    counts = Counter(class_counts(NO_RECORDS, unreadable=0))
    walk = begin_walk(replace(ready.state, cursor=None))
    while not walk.ended and monotonic() < until:
        record_ids, walk = next_page(conn, ready, walk, limit=_PAGE)
        page, unreadable = judge_readable(conn, ready, record_ids, now=now)
        counts.update(class_counts(page, unreadable=unreadable))
    return dict(counts)


def _upcoming(schedule: TableSchedule, state: TriggerState, *, now: datetime) -> list[Json]:
    windows = upcoming_windows(schedule, anchor=state.anchor_at, after=now, count=UPCOMING)
    return [window_document(one) for one in local_windows(schedule, windows, since=now)]


def window_document(window: LocalWindow) -> dict[str, Json]:
    """Return a window as JSON: ``{at, local, offset, notes}``, ``at`` as preview tells instants."""
    return {
        "at": second(window.at),
        "local": window.local,
        "offset": window.offset,
        "notes": list(window.notes),
    }


def _ahead(told: Consequence, ready: Ready) -> Arm:
    """Return what would fire; nothing of a disabled trigger, null if not all rows were read."""
    ahead: Arm = {"fires_within_24_hours": None if told.truncated else told.fires_within_24_hours}
    return ahead if ready.is_clock else {"oldest_due_at": second(told.oldest_due_at)} | ahead
