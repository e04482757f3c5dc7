"""What the preview and the simulation tell of a trigger on schedule: its arm, as JSON.

Counts, codes and instants, never a record or a cell (spec 1 §8).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from psycopg import Connection

from shared.domain.strict_json import Json
from shared.evaluator.date_trigger import DatePage
from shared.queries.new_runs import has_active_run
from shared.schedule.windows import never_matches
from shared.usecases import fire_clocks
from shared.usecases.fire_dates import look, portions, without_culprits
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
        "warnings": warnings_of(ready),
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
        "warnings": warnings_of(ready),
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


def classes_of_records(
    conn: Connection, ready: Ready, at: Mapping[int, datetime]
) -> dict[int, str]:
    """Return the class of each record at its instant, by its name in the arm of a date trigger.

    Or why it is in none: ``record_unreadable``, ``record_deleted``; by the choice of a save
    ``held_back`` or ``consumed_by_save``. All are read together: there may be a page full of them.
    """
    classes = dict.fromkeys(at, "record_deleted")

    def classify(record_ids: Sequence[int]) -> dict[int, str]:
        pages = look(conn, ready, record_ids).judged_each(at)
        return {record_id: _class_of(ready, page) for record_id, page in pages.items()}

    def set_aside(record_id: int, _: Exception) -> None:
        classes[record_id] = "record_unreadable"

    for portion in portions(ready, list(at)):
        for found in without_culprits(conn, portion, classify, set_aside):
            classes |= found
    return classes


def _class_of(ready: Ready, page: DatePage) -> str:
    """Return the class of the one record of a page."""
    if page.of_backlog:
        backlog = ready.state.backlog
        drips = backlog is not None and backlog.mode == "drip"
        return "held_back" if drips else "consumed_by_save"
    counts = class_counts(page, unreadable=0)
    return next(name for name, count in counts.items() if count)


def warnings_of(ready: Ready) -> list[Json]:
    """Return what a person should know of a sound trigger, by the codes of the preview."""
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
