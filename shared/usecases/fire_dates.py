"""Date triggers: judge records by the evaluator, and write what is due, for tick and due pass."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import structlog
from psycopg import Connection

from shared.domain.columns import Column
from shared.domain.triggers import TriggerState
from shared.domain.work import Reference
from shared.evaluator.date_backlog import judge_beside
from shared.evaluator.date_trigger import NO_RECORDS, DatePage, Due, judge_page
from shared.observability import metrics
from shared.queries.backlogs import (
    consume_values,
    end_backlog,
    fresh_records,
    hold_values,
    note_helping,
    take_held,
)
from shared.queries.due_values import DueValue, put_due_values
from shared.queries.new_runs import insert_date_runs
from shared.queries.occurrences import consumed_identities
from shared.queries.record_walk import WalkRow, walk_rows
from shared.usecases.retrying import concerns_whole
from shared.usecases.scheduled_triggers import Ready, freeze, note_made

_log = structlog.get_logger()

T = TypeVar("T")

RELEASED_AT_ONCE = 10_000
"""How much of a drip fires in one transaction: as many rows as a page has at most."""

# A record may have 262,144 characters: of a page of 10,000 only so many are read at once.
_ROWS_AT_ONCE = 200

_REASONS = (
    "missing_schedule_value",
    "invalid_schedule_value",
    "already_fired",
    "scheduled_for_future",
    "when_filter_mismatch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What came of records that were looked at: ``found_due`` also if a run was there before."""

    references: tuple[Reference, ...] = ()
    found_due: bool = False

    def __add__(self, other: "Fired") -> "Fired":
        return Fired(
            references=self.references + other.references,
            found_due=self.found_due or other.found_due,
        )


def date_column(ready: Ready) -> Column:
    """Return the column that a date trigger reads."""
    assert ready.trigger.date_column is not None
    return ready.trigger.date_column


def when_ids(ready: Ready) -> list[str]:
    """Return the ids of the columns that the trigger's ``when`` reads, each once."""
    return list(dict.fromkeys(predicate.column.id for predicate in ready.trigger.when))


def portions(ready: Ready, record_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Give the records in portions that can be read at once, in the order of their ids.

    Every transaction enters ledger rows in this order, so that two never wait in a circle.
    """
    size = _ROWS_AT_ONCE if ready.trigger.when else max(len(record_ids), 1)
    in_order = sorted(record_ids)
    for start in range(0, len(in_order), size):
        yield in_order[start : start + size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Live records, and all that has to be known of them to judge them at any instant."""

    ready: Ready
    rows: Sequence[WalkRow]
    consumed: Set[tuple[int, str]]
    fresh: Set[int] | None

    def judged(self, *, now: datetime) -> DatePage:
        """Return the records in their six classes."""
        return self._judged(self.rows, now=now)

    def judged_each(self, at: Mapping[int, datetime]) -> dict[int, DatePage]:
        """Return each record by itself, at an instant of its own."""
        return {row.record_id: self._judged([row], now=at[row.record_id]) for row in self.rows}

    def _judged(self, rows: Sequence[WalkRow], *, now: datetime) -> DatePage:
        trigger, backlog = self.ready.trigger, self.ready.state.backlog
        if backlog is None or self.fresh is None:
            return judge_page(trigger, rows, consumed=self.consumed, now=now)
        return judge_beside(
            backlog, trigger, rows, fresh=self.fresh, consumed=self.consumed, now=now
        )


def look(
    conn: Connection, ready: Ready, record_ids: Sequence[int], *, taken: bool = False
) -> Sight:
    """Return the records, as far as they are live, with what has to be known to judge them.

    ``taken``: their entries of the due index were deleted, and are not looked for.
    """
    rows = walk_rows(
        conn,
        table_id=ready.table.id,
        trigger_ref=ready.state.ref,
        column_id=date_column(ready).id,
        when_ids=when_ids(ready),
        record_ids=record_ids,
        taken=taken,
    )
    consumed = consumed_identities(
        conn, trigger_ref=ready.state.ref, record_ids=[row.record_id for row in rows]
    )
    return Sight(ready=ready, rows=rows, consumed=consumed, fresh=_fresh(conn, ready, rows))


def judge(
    conn: Connection,
    ready: Ready,
    record_ids: Sequence[int],
    *,
    now: datetime,
    taken: bool = False,
) -> DatePage:
    """Return the records, as far as they are live, by class; ``taken`` as in ``look``."""
    return look(conn, ready, record_ids, taken=taken).judged(now=now)


def _fresh(conn: Connection, ready: Ready, rows: Sequence[WalkRow]) -> Set[int] | None:
    """Return the records whose value is not of the backlog; None if there is none, any more."""
    if ready.state.backlog is None:
        return None
    return fresh_records(conn, ready.state, [row.record_id for row in rows])


def judge_readable(
    conn: Connection, ready: Ready, record_ids: Sequence[int], *, now: datetime
) -> tuple[DatePage, int]:
    """Return the records in their classes, and how many of them cannot be read.

    Those a tick would set aside. Nothing is written.
    """
    unreadable: list[int] = []
    parts = [
        part
        for portion in portions(ready, record_ids)
        for part in without_culprits(
            conn,
            portion,
            lambda record_ids: judge(conn, ready, record_ids, now=now),
            lambda record_id, _: unreadable.append(record_id),
        )
    ]
    return sum(parts, start=NO_RECORDS), len(unreadable)


def fire_records(
    conn: Connection,
    ready: Ready,
    record_ids: Sequence[int],
    *,
    announced: bool,
    now: datetime,
    taken: bool = False,
) -> Fired:
    """Insert runs for the records that are due, and entries of the due index for those ahead.

    A record that fails is set aside, and stops no other. ``taken`` as in ``judge``.
    """

    def fire(record_ids: Sequence[int]) -> Fired:
        page = judge(conn, ready, record_ids, now=now, taken=taken)
        _tell_not_fired(page)
        return _fire(conn, ready, page, announced=announced, now=now)

    def set_aside(record_id: int, error: Exception) -> None:
        metrics.TICK_FAILURES.labels("record").inc()
        _log.exception(
            "record_set_aside",
            table_id=str(ready.table.id),
            trigger_id=ready.state.trigger_id,
            record_id=record_id,
            reason=str(error),
        )

    return sum_fired(
        fired
        for portion in portions(ready, record_ids)
        for fired in without_culprits(conn, portion, fire, set_aside)
    )


def _tell_not_fired(page: DatePage) -> None:
    for reason in _REASONS:
        if count := getattr(page, reason):
            metrics.NOT_FIRED.labels(reason).inc(count)


def _fire(
    conn: Connection, ready: Ready, page: DatePage, *, announced: bool, now: datetime
) -> Fired:
    references: list[Reference] = []
    found_due = bool(page.due) and ready.trigger.enabled
    if found_due:
        references = insert_date_runs(
            conn,
            ready.state,
            page.due,
            definition_hash=freeze(conn, ready),
            announced=announced,
            now=now,
        )
        note_made(ready, references)
    ref = ready.state.ref
    entries = [
        DueValue(trigger_ref=ref, record_id=row.record_id, version=row.version, fire_at=row.fire_at)
        for row in page.ahead
    ]
    put_due_values(conn, tenant_id=ready.table.tenant_id, entries=entries)
    if page.of_backlog:
        _set_apart(conn, ready.state, page.of_backlog, now=now)
    return Fired(references=tuple(references), found_due=found_due)


def _set_apart(
    conn: Connection, state: TriggerState, values: Sequence[Due], *, now: datetime
) -> None:
    """Do with values of the backlog what the save chose: enter them in the ledger, or hold them."""
    assert state.backlog is not None
    if state.backlog.mode == "consume":
        consume_values(conn, state, values, now=now)
    else:
        hold_values(conn, state, values, now=now)


def release(
    conn: Connection, ready: Ready, *, announced: bool, now: datetime
) -> tuple[Reference, ...]:
    """Fire the oldest that wait in the trigger's drip, as many as may; end it behind the last.

    Of a large helping only a part: the due pass is to look for the next one at once. The caller
    holds the lock of the table, and has read the state since.
    """
    backlog, ref = ready.state.backlog, ready.state.ref
    if backlog is None or backlog.mode != "drip":
        return ()
    limit = min(backlog.room(now), RELEASED_AT_ONCE)
    record_ids = take_held(conn, ref, limit=limit)
    waiting = len(record_ids) == limit
    let_go = replace(ready, state=replace(ready.state, backlog=None))
    references = fire_records(conn, let_go, record_ids, announced=announced, now=now).references
    if not waiting and ready.state.caught_up:
        end_backlog(conn, ref)
    else:
        after = backlog.after(len(references), now=now, waiting=waiting)
        if after != backlog:
            note_helping(conn, ref, after)
    return references


def without_culprits(
    conn: Connection,
    record_ids: Sequence[int],
    step: Callable[[Sequence[int]], T],
    set_aside: Callable[[int, Exception], None],
) -> list[T]:
    """Return what a step, in a savepoint, makes of records, without those that make it fail.

    A list that fails is halved until the culprit stands alone. Raises what concerns the whole
    transaction.
    """
    if not record_ids:
        return []
    try:
        with conn.transaction():
            return [step(record_ids)]
    except Exception as error:
        if concerns_whole(conn, error):
            raise
        if len(record_ids) == 1:
            set_aside(record_ids[0], error)
            return []
    half = len(record_ids) // 2
    return [
        *without_culprits(conn, record_ids[:half], step, set_aside),
        *without_culprits(conn, record_ids[half:], step, set_aside),
    ]


def sum_fired(parts: Iterable[Fired]) -> Fired:
    """Return several outcomes as one."""
    return sum(parts, start=Fired())
