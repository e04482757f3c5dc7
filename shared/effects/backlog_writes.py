"""What a write of records means for a backlog: values that were overdue at the save leave it.

A value that is replaced is consumed at once, if it was to be; one that is written after the save
is fresh, and fires like any other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from shared.domain.columns import Column
from shared.domain.on_existing import Backlog
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.domain.triggers import Trigger, TriggerState
from shared.evaluator.date_backlog import overdue_identity
from shared.evaluator.date_trigger import Due
from shared.queries.backlogs import consume_values, mark_fresh
from shared.schedule import parse_schedule
from shared.schedule.model import DateColumnReached

Cells = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A record's cells before and after a write; None where it was not there, or is no more."""

    record_id: int
    version: int
    before: Cells | None
    after: Cells | None


def keep_backlogs(
    conn: Connection,
    table: CustomTable,
    triggers: Iterable[Trigger],
    states: Iterable[TriggerState],
    changes: Sequence[Change],
    *,
    now: datetime,
) -> None:
    """Let changed records leave the backlogs of the table's triggers, those that have one.

    ``triggers`` are the table's on dates. Table and triggers may be older than the states.
    """
    read = {trigger.id: trigger.date_column for trigger in triggers}
    for state in states:
        if state.backlog is None:
            continue
        schedule = parse_schedule(state.schedule)
        assert isinstance(schedule, DateColumnReached)
        column = _column_of(schedule, table, read.get(state.trigger_id))
        if column is not None and column.type in ("date", "datetime"):
            identity_of = overdue_identity(schedule, column, state.backlog)
            _keep(conn, state, state.backlog, identity_of, changes, now=now)


def _column_of(
    schedule: DateColumnReached, table: CustomTable, read: Column | None
) -> Column | None:
    """Return the column that a schedule names, ``read`` if no column of the table is called so.

    Then it was renamed since the table was read, for an edit would name another one of the table's.
    """
    named = (column for column in table.columns if column.name == schedule.column)
    return next(named, read)


def _keep(
    conn: Connection,
    state: TriggerState,
    backlog: Backlog,
    identity_of: Callable[[Cells], str | None],
    changes: Sequence[Change],
    *,
    now: datetime,
) -> None:
    former: list[Due] = []
    fresh: list[int] = []
    for change in changes:
        before, after = _identity(identity_of, change.before), _identity(identity_of, change.after)
        if before is not None:
            former.append(Due(change.record_id, change.version, before, backlog.before))
        if after is not None and after != before:
            fresh.append(change.record_id)
    if former and backlog.mode == "consume":
        consume_values(conn, state, former, now=now)
    if fresh:
        mark_fresh(conn, state, fresh)


def _identity(identity_of: Callable[[Cells], str | None], cells: Cells | None) -> str | None:
    return None if cells is None else identity_of(cells)
