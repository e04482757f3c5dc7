"""What a write of records means for a backlog: values that were overdue at the save leave it.

A value that is replaced is consumed at once, if it was to be; one that is written after the save
is fresh, and fires like any other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from shared.domain.on_existing import Backlog
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.domain.triggers import TriggerState
from shared.evaluator.date_backlog import overdue_identity
from shared.evaluator.date_trigger import Due
from shared.queries.backlogs import consume_values, mark_fresh
from shared.schedule import parse_schedule

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
    states: Iterable[TriggerState],
    changes: Sequence[Change],
    *,
    now: datetime,
) -> None:
    """Let changed records leave the backlogs of the table's triggers, those that have one."""
    for state in states:
        if state.backlog is not None:
            _keep(conn, table, state, state.backlog, changes, now=now)


def _keep(
    conn: Connection,
    table: CustomTable,
    state: TriggerState,
    backlog: Backlog,
    changes: Sequence[Change],
    *,
    now: datetime,
) -> None:
    identity_of = overdue_identity(parse_schedule(state.schedule), table.columns, backlog)
    if identity_of is None:
        return
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
