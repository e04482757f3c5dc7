"""Date triggers: judge records by the evaluator, and write what is due, for tick and due pass."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import structlog
from psycopg import Connection

from shared.domain.columns import Column
from shared.domain.work import Reference
from shared.evaluator.date_trigger import DatePage, judge_page
from shared.observability import metrics
from shared.queries.due_values import DueValue, put_due_values
from shared.queries.new_runs import insert_date_runs
from shared.queries.occurrences import consumed_identities
from shared.queries.record_walk import WalkRow, walk_rows
from shared.usecases.retrying import concerns_whole
from shared.usecases.scheduled_triggers import Ready, freeze

_log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What came of records that were looked at: ``found_due`` also if a run was there before.

    ``ahead`` are the records whose entry in the due index now says when to look again.
    """

    references: tuple[Reference, ...] = ()
    found_due: bool = False
    ahead: frozenset[int] = frozenset()

    def __add__(self, other: "Fired") -> "Fired":
        return Fired(
            references=self.references + other.references,
            found_due=self.found_due or other.found_due,
            ahead=self.ahead | other.ahead,
        )


def date_column(ready: Ready) -> Column:
    """Return the column that a date trigger reads."""
    assert ready.trigger.date_column is not None
    return ready.trigger.date_column


def when_ids(ready: Ready) -> list[str]:
    """Return the ids of the columns that the trigger's ``when`` reads, each once."""
    return list(dict.fromkeys(predicate.column.id for predicate in ready.trigger.when))


def judge(conn: Connection, ready: Ready, rows: Sequence[WalkRow], *, now: datetime) -> DatePage:
    """Return the rows in their six classes, by the evaluator and the ledger."""
    consumed = consumed_identities(
        conn, trigger_ref=ready.state.ref, record_ids=[row.record_id for row in rows]
    )
    return judge_page(ready.trigger, rows, consumed=consumed, now=now)


def fire_records(
    conn: Connection, ready: Ready, record_ids: Sequence[int], *, announced: bool, now: datetime
) -> Fired:
    """Insert runs for the records that are due, and entries of the due index for those ahead.

    A record that fails is set aside, and stops no other.
    """

    def fire(record_ids: Sequence[int]) -> Fired:
        rows = read_records(conn, ready, record_ids)
        return _fire(conn, ready, judge(conn, ready, rows, now=now), announced=announced, now=now)

    def set_aside(record_id: int, error: Exception) -> None:
        metrics.TICK_FAILURES.labels("record").inc()
        _log.exception(
            "record_set_aside",
            table_id=str(ready.table.id),
            trigger_id=ready.state.trigger_id,
            record_id=record_id,
            reason=str(error),
        )

    return sum_fired(without_culprits(conn, record_ids, fire, set_aside))


def _fire(
    conn: Connection, ready: Ready, page: DatePage, *, announced: bool, now: datetime
) -> Fired:
    references: list[Reference] = []
    if page.due:
        references = insert_date_runs(
            conn,
            ready.state,
            page.due,
            definition_hash=freeze(conn, ready),
            announced=announced,
            now=now,
        )
    ref = ready.state.ref
    entries = [
        DueValue(trigger_ref=ref, record_id=row.record_id, version=row.version, fire_at=row.fire_at)
        for row in page.ahead
    ]
    put_due_values(conn, tenant_id=ready.table.tenant_id, entries=entries)
    return Fired(
        references=tuple(references),
        found_due=bool(page.due),
        ahead=frozenset(row.record_id for row in page.ahead),
    )


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


def read_records(conn: Connection, ready: Ready, record_ids: Sequence[int]) -> list[WalkRow]:
    """Return what the trigger sees of these records, as far as they are live."""
    return walk_rows(
        conn,
        table_id=ready.table.id,
        trigger_ref=ready.state.ref,
        column_id=date_column(ready).id,
        when_ids=when_ids(ready),
        record_ids=record_ids,
    )


def sum_fired(parts: Iterable[Fired]) -> Fired:
    """Return several outcomes as one."""
    return sum(parts, start=Fired())
