"""The schedule preview: what the next tick would find, by the tick's own evaluator on its own page.

Read only; counts, codes and instants, never a record or a cell (spec 1 §8).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from psycopg import Connection, IsolationLevel

from shared.db.clock import server_now
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.evaluator.date_trigger import DatePage
from shared.queries.custom_tables import get_table
from shared.queries.new_runs import has_active_run
from shared.queries.records import count_live
from shared.queries.trigger_states import list_states
from shared.schedule.windows import never_matches
from shared.usecases import fire_clocks
from shared.usecases.fire_dates import judge_readable
from shared.usecases.scheduled_triggers import Broken, Ready, schedule_triggers
from shared.usecases.walk import begin_walk, next_page

RECORD_LIMIT = 1000

Arm = dict[str, Json]


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
    with _snapshot(conn):
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


@contextmanager
def _snapshot(conn: Connection) -> Iterator[None]:
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
        return _invalid_arm(met)
    if met.is_clock:
        return _clock_arm(conn, met, now=now)
    return _date_arm(conn, met, live_records=live_records, record_limit=record_limit, now=now)


def _invalid_arm(broken: Broken) -> Arm:
    raw = broken.read.raw
    is_disabled = isinstance(raw, dict) and raw.get("enabled") is False
    return {
        "kind": "invalid",
        "trigger_id": broken.read.trigger_id,
        "stored_schedule_type": broken.read.schedule_type,
        "config_status": "invalid",
        "error_codes": list(broken.error_codes),
        "warnings": ["trigger_disabled"] if is_disabled else [],
    }


def _clock_arm(conn: Connection, ready: Ready, *, now: datetime) -> Arm:
    active_run = has_active_run(conn, ready.state.ref)
    verdict = fire_clocks.judge(conn, ready, active_run=active_run, now=now)
    return {
        "kind": ready.trigger.kind,
        "trigger_id": ready.state.trigger_id,
        "config_status": "valid",
        "last_consumed_window_at": _second(ready.state.last_window_at),
        "due_at": _second(verdict.due_at),
        "due_now": verdict.due_now,
        "active_run": active_run,
        "warnings": _warnings(ready),
    }


def _date_arm(
    conn: Connection, ready: Ready, *, live_records: int, record_limit: int, now: datetime
) -> Arm:
    page, unreadable = _first_page(conn, ready, record_limit=record_limit, now=now)
    scanned = page.records_scanned + unreadable
    return {
        "kind": ready.trigger.kind,
        "trigger_id": ready.state.trigger_id,
        "config_status": "valid",
        "records_scanned": scanned,
        "already_fired": page.already_fired,
        "missing_schedule_value": page.missing_schedule_value,
        "invalid_schedule_value": page.invalid_schedule_value + unreadable,
        "scheduled_for_future": page.scheduled_for_future,
        "when_filter_mismatch": page.when_filter_mismatch,
        "due_now": page.due_now,
        "unscanned": live_records - scanned,
        "truncated": live_records > scanned,
        "warnings": _warnings(ready),
    }


def _first_page(
    conn: Connection, ready: Ready, *, record_limit: int, now: datetime
) -> tuple[DatePage, int]:
    """Return the page that the next tick reads first, and how many of its records are unreadable.

    The tick would set those aside.
    """
    record_ids, _ = next_page(conn, ready, begin_walk(ready.state), limit=record_limit)
    return judge_readable(conn, ready, record_ids, now=now)


def _warnings(ready: Ready) -> list[Json]:
    trigger = ready.trigger
    never = trigger.schedule is not None and never_matches(trigger.schedule)
    told = {
        "trigger_disabled": not trigger.enabled,
        "when_ignored_for_recordless_schedule": ready.is_clock and bool(trigger.raw["when"]),
        "cron_never_matches": never,
    }
    return [warning for warning, holds in told.items() if holds]


def _second(instant: datetime | None) -> str | None:
    """Return an instant in the one format of the preview: UTC without a zone, cut to the second."""
    if instant is None:
        return None
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
