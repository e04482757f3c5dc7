"""The schedule preview: what the next tick would find, by the tick's own evaluator on its own page.

Read only; counts, codes and instants, never a record or a cell (spec 1 §8).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection, IsolationLevel

from shared.db.clock import server_now
from shared.domain.records import CustomTable
from shared.domain.triggers import read_triggers
from shared.queries.custom_tables import get_table
from shared.queries.records import count_live
from shared.queries.trigger_states import list_states
from shared.usecases.fire_dates import judge_readable
from shared.usecases.preview_arms import Arm, class_counts, clock_arm, date_arm, invalid_arm
from shared.usecases.scheduled_triggers import Broken, Ready, schedule_triggers
from shared.usecases.walk import begin_walk, next_page

RECORD_LIMIT = 1000

LONG_ROWS = 100_000
"""A preview that may judge more rows takes seconds: as many as 100 triggers on a tick's page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What the next tick would find at ``evaluated_at``; ``triggers`` are JSON, an arm each."""

    table_id: UUID
    evaluated_at: datetime
    live_records: int
    record_limit: int
    triggers: list[Arm]


def preview(
    conn: Connection,
    table: CustomTable,
    *,
    record_limit: int = RECORD_LIMIT,
    now: datetime | None = None,
) -> Preview:
    """Return the preview of a live table at ``now`` (None: the server's), from one snapshot.

    Raises NotFound. No transaction may be open.
    """
    now = server_now(conn) if now is None else now
    with snapshot(conn):
        table = get_table(conn, table.id)
        live_records = count_live(conn, table.id)
        arms = [
            _arm(conn, met, live_records=live_records, record_limit=record_limit, now=now)
            for met in schedule_triggers(table, list_states(conn, table.id))
        ]
    return Preview(
        table_id=table.id,
        evaluated_at=now,
        live_records=live_records,
        record_limit=record_limit,
        triggers=arms,
    )


def is_long(table: CustomTable, *, record_limit: int) -> bool:
    """Whether the preview of the table may have to judge more than ``LONG_ROWS`` rows."""
    read = read_triggers(table.triggers or [], table.columns, stored=True)
    on_dates = sum(one.schedule_type == "date_column_reached" for one in read)
    return on_dates * record_limit > LONG_ROWS


@contextmanager
def snapshot(conn: Connection) -> Iterator[None]:
    """Run the block in a read-only transaction that sees one state of the database."""
    conn.read_only, conn.isolation_level = True, IsolationLevel.REPEATABLE_READ
    try:
        with conn.transaction():
            yield
    finally:
        conn.read_only, conn.isolation_level = None, None


def _arm(
    conn: Connection, met: Ready | Broken, *, live_records: int, record_limit: int, now: datetime
) -> Arm:
    if isinstance(met, Broken):
        return invalid_arm(met)
    if met.is_clock:
        return clock_arm(conn, met, now=now)
    return _date_arm(conn, met, live_records=live_records, record_limit=record_limit, now=now)


def _date_arm(
    conn: Connection, ready: Ready, *, live_records: int, record_limit: int, now: datetime
) -> Arm:
    """Return the arm of a date trigger, of the page that the next tick reads first."""
    record_ids, _ = next_page(conn, ready, begin_walk(ready.state), limit=record_limit)
    page, unreadable = judge_readable(conn, ready, record_ids, now=now)
    counts = class_counts(page, unreadable=unreadable)
    return date_arm(ready, counts, live_records=live_records)
