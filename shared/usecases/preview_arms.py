"""What the preview and the simulation tell of a trigger on schedule: its arm, as JSON.

Counts, codes and instants, never a record or a cell (spec 1 §8).
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from psycopg import Connection

from shared.domain.strict_json import Json
from shared.evaluator.date_trigger import DatePage
from shared.queries.new_runs import has_active_run
from shared.schedule.windows import never_matches
from shared.usecases import fire_clocks
from shared.usecases.fire_dates import judge_readable
from shared.usecases.scheduled_triggers import Broken, Ready

Arm = dict[str, Json]


def invalid_arm(broken: Broken) -> Arm:
    """Return the arm of a trigger that the scheduler would pass by."""
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


def clock_arm(conn: Connection, ready: Ready, *, now: datetime) -> Arm:
    """Return the arm of an interval, a daily or a cron trigger; one not yet saved has no id."""
    active_run = has_active_run(conn, ready.state.ref)
    verdict = fire_clocks.judge(conn, ready, active_run=active_run, now=now)
    return {
        "kind": ready.trigger.kind,
        "trigger_id": ready.state.trigger_id or None,
        "config_status": "valid",
        "last_consumed_window_at": second(ready.state.last_window_at),
        "due_at": second(verdict.due_at),
        "due_now": verdict.due_now,
        "active_run": active_run,
        "warnings": _warnings(ready),
    }


def date_arm(ready: Ready, counts: Mapping[str, int], *, live_records: int) -> Arm:
    """Return the arm of a date trigger by how many records are of each class (``class_counts``)."""
    scanned = sum(counts.values())
    return {
        "kind": ready.trigger.kind,
        "trigger_id": ready.state.trigger_id or None,
        "config_status": "valid",
        "records_scanned": scanned,
        **counts,
        "unscanned": live_records - scanned,
        "truncated": live_records > scanned,
        "warnings": _warnings(ready),
    }


def class_counts(page: DatePage, *, unreadable: int) -> dict[str, int]:
    """Return how many records of a page are of each class.

    Those that cannot be read, ``unreadable`` in number, count as invalid.
    """
    return {
        "already_fired": page.already_fired,
        "missing_schedule_value": page.missing_schedule_value,
        "invalid_schedule_value": page.invalid_schedule_value + unreadable,
        "scheduled_for_future": page.scheduled_for_future,
        "when_filter_mismatch": page.when_filter_mismatch,
        "due_now": page.due_now,
    }


def class_of_record(conn: Connection, ready: Ready, record_id: int, *, now: datetime) -> str:
    """Return the class of a single record, by the name that it has in the arm of a date trigger.

    Or why it is in none: ``record_unreadable``, ``record_deleted``; by the choice of a save
    ``held_back`` or ``consumed_by_save``.
    """
    page, unreadable = judge_readable(conn, ready, [record_id], now=now)
    if unreadable:
        return "record_unreadable"
    if page.of_backlog:
        backlog = ready.state.backlog
        drips = backlog is not None and backlog.mode == "drip"
        return "held_back" if drips else "consumed_by_save"
    counts = class_counts(page, unreadable=0)
    return next((name for name, count in counts.items() if count), "record_deleted")


def _warnings(ready: Ready) -> list[Json]:
    trigger = ready.trigger
    never = trigger.schedule is not None and never_matches(trigger.schedule)
    told = {
        "trigger_disabled": not trigger.enabled,
        "when_ignored_for_recordless_schedule": ready.is_clock and bool(trigger.raw["when"]),
        "cron_never_matches": never,
        "backlog_being_consumed": ready.consumes,
        "backlog_dripping": ready.state.backlog is not None and not ready.consumes,
    }
    return [warning for warning, holds in told.items() if holds]


def second(instant: datetime | None) -> str | None:
    """Return an instant in the one format of the preview: UTC without a zone, cut to the second."""
    if instant is None:
        return None
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
