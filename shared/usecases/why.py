"""Why a trigger fires, or does not: of one row, or of a clock, by the scheduler's own evaluator.

Unlike the preview it shows cells: it is for people who may see them. Read only (spec 1 §9).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.conditions import matches
from shared.domain.instants import instant_text
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.domain.triggers import Trigger
from shared.errors import Fault, InvalidInput, NotFound
from shared.evaluator.clock_trigger import ClockVerdict
from shared.queries.custom_tables import get_table
from shared.queries.record_walk import WalkRow
from shared.queries.whys import (
    OneRow,
    find_active_run,
    find_consumed,
    find_consumed_window,
    find_entry,
    find_last_run,
    find_row,
    list_consumed_of_record,
)
from shared.schedule import fire_at, parse_cell
from shared.schedule.local_times import LocalWindow, local_windows
from shared.schedule.model import DateColumnReached, TableSchedule
from shared.schedule.windows import latest_window, next_window
from shared.usecases import fire_clocks
from shared.usecases.fire_dates import date_column, when_ids
from shared.usecases.known_triggers import KnownTrigger, get_known
from shared.usecases.preview import snapshot
from shared.usecases.preview_arms import classes_of_records
from shared.usecases.scheduled_triggers import Ready
from shared.usecases.verdicts import Cell, Clause, Why

HISTORY = 20
"""Ledger entries of a record that are told, the newest."""

_MINUTE = timedelta(minutes=1)


def why(
    conn: Connection,
    table: CustomTable,
    trigger_id: str,
    *,
    record_id: int | None = None,
    now: datetime | None = None,
) -> Why:
    """Return why a trigger fires at ``now`` (None: the server's), or does not.

    ``record_id`` is for triggers that have a row, and they need it. Raises NotFound: table,
    trigger, or record of the table; InvalidInput ``record_missing`` and ``record_not_expected``.
    No transaction may be open.
    """
    now = server_now(conn) if now is None else now
    with snapshot(conn):
        known = get_known(conn, get_table(conn, table.id), trigger_id)
        _check_record(known, record_id)
        told = _told(known, record_id, now=now)
        if known.event is not None:
            return _of_event(conn, told, known.table, known.event)
        if not isinstance(known.met, Ready):
            return _of_none(conn, told, known)
        schedule = known.met.trigger.schedule
        if isinstance(schedule, DateColumnReached) or schedule is None:
            return _of_record(conn, told, known.met)
        return _of_clock(conn, told, known.met, schedule)


def _check_record(known: KnownTrigger, record_id: int | None) -> None:
    is_clock = known.kind in ("interval", "daily", "cron")
    if record_id is None and known.kind is not None and not is_clock:
        message = f"a {known.kind} trigger has a row for each run: say which by record_id"
        raise InvalidInput.of([Fault(code="record_missing", pointer="/record_id", message=message)])
    if record_id is not None and is_clock:
        message = f"a {known.kind} trigger has no row: leave out record_id"
        fault = Fault(code="record_not_expected", pointer="/record_id", message=message)
        raise InvalidInput.of([fault])


def _told(known: KnownTrigger, record_id: int | None, *, now: datetime) -> Why:
    """Return what is to be said of a trigger that is not asked at all; the rest is put in."""
    return Why(
        table_id=known.table.id,
        trigger_id=known.trigger_id,
        kind=known.kind,
        evaluated_at=now,
        record_id=record_id,
        verdict="config_invalid" if known.error_codes else "trigger_removed",
        error_codes=known.error_codes,
        warnings=known.warnings,
    )


def _of_none(conn: Connection, told: Why, known: KnownTrigger) -> Why:
    """Return the answer for a trigger that is broken, or no longer there."""
    if told.record_id is None or known.state is None:
        return told
    history = list_consumed_of_record(conn, known.state, told.record_id, limit=HISTORY)
    return replace(told, history=history)


def _of_event(conn: Connection, told: Why, table: CustomTable, trigger: Trigger) -> Why:
    """Return whether ``when`` matches the row as it is now; ``changed`` counts as true."""
    assert told.record_id is not None
    column_ids = [predicate.column.id for predicate in trigger.when]
    row = _row(conn, table, told.record_id, column_id=None, column_ids=column_ids)
    verdict, clause = _judged(row, trigger, lambda: "matches")
    last = find_last_run(conn, table.id, told.trigger_id, told.record_id)
    return replace(told, verdict=verdict, fires=_fires(told, verdict), clause=clause, last_run=last)


def _of_record(conn: Connection, told: Why, ready: Ready) -> Why:
    assert told.record_id is not None
    column, state, record_id = date_column(ready), ready.state, told.record_id
    row = _row(conn, ready.table, record_id, column_id=column.id, column_ids=when_ids(ready))
    cell = _cell(ready, row.cell)
    ledger = None if cell.identity is None else find_consumed(conn, state, record_id, cell.identity)
    at = {record_id: told.evaluated_at}
    verdict, clause = _judged(
        row, ready.trigger, lambda: classes_of_records(conn, ready, at)[record_id]
    )
    entry = find_entry(conn, state.ref, record_id)
    return replace(
        told,
        verdict=verdict,
        fires=_fires(told, verdict),
        cell=cell,
        clause=clause,
        ledger=ledger,
        history=list_consumed_of_record(conn, state, record_id, limit=HISTORY),
        look_at=None if entry is None else entry.fire_at,
    )


def _row(
    conn: Connection,
    table: CustomTable,
    record_id: int,
    *,
    column_id: str | None,
    column_ids: Sequence[str],
) -> OneRow:
    row = find_row(conn, table.id, record_id, column_id=column_id, column_ids=column_ids)
    if row is None:
        message = f"the table has no record {record_id}"
        raise NotFound(message, code="record_not_found")
    return row


def _judged(row: OneRow, trigger: Trigger, judge: Callable[[], str]) -> tuple[str, Clause | None]:
    """Return the verdict on a row, and the clause that it does not match, whatever the verdict.

    The scheduler sets a row aside that cannot be read, and does not see one that is deleted.
    """
    clause, is_readable = _mismatch_of(trigger, row)
    verdict = judge()
    if row.deleted_at is not None:
        verdict = "record_deleted"
    elif verdict == "matches" and not is_readable:
        verdict = "record_unreadable"
    elif verdict == "matches" and clause is not None:
        verdict = "when_filter_mismatch"
    return verdict, clause


def _mismatch_of(trigger: Trigger, row: OneRow) -> tuple[Clause | None, bool]:
    """Return the first clause that does not match, and whether the cells can be read at all."""
    try:
        return _first_mismatch(trigger, _walk_row(row).data), True
    except ValueError:
        return None, False


def _fires(told: Why, verdict: str) -> bool:
    return verdict in ("due_now", "matches") and not told.warnings


def _walk_row(row: OneRow) -> WalkRow:
    """Return the row as the walk reads it."""
    return WalkRow(row.record_id, row.version, row.cell, None, row.cells)


def _cell(ready: Ready, value: str | None) -> Cell:
    column, schedule = date_column(ready), ready.trigger.schedule
    assert isinstance(schedule, DateColumnReached)
    read = parse_cell(value, column.type)
    return Cell(
        column=column.name,
        value=value,
        identity=None if read is None else read.identity,
        instant=None if read is None else read.instant,
        fire_at=None if read is None else fire_at(read.instant, schedule.offset_minutes),
    )


def _first_mismatch(trigger: Trigger, cells: Mapping[str, Json]) -> Clause | None:
    stored: list[Any] = trigger.raw["when"] if trigger.when else []
    for index, (predicate, raw) in enumerate(zip(trigger.when, stored, strict=True)):
        if not matches((predicate,), cells):
            return Clause(index=index, predicate=raw, cell=cells.get(predicate.column.id))
    return None


def _of_clock(conn: Connection, told: Why, ready: Ready, schedule: TableSchedule) -> Why:
    state, now = ready.state, told.evaluated_at
    active = find_active_run(conn, state.ref)
    verdict = fire_clocks.judge(conn, ready, active_run=active is not None, now=now)
    latest = latest_window(schedule, anchor=state.anchor_at, now=now)
    name = _clock_class(verdict)
    return replace(
        told,
        verdict=name,
        fires=_fires(told, name),
        ledger=None if latest is None else find_consumed_window(conn, state, instant_text(latest)),
        anchor_at=state.anchor_at,
        last_consumed_window_at=state.last_window_at,
        window=_as_local(schedule, latest, since=latest and latest - _MINUTE),
        due_at=verdict.due_at,
        active_run=active,
        next=_as_local(
            schedule, next_window(schedule, anchor=state.anchor_at, after=now), since=now
        ),
    )


def _clock_class(verdict: ClockVerdict) -> str:
    if verdict.due_now:
        return "due_now"
    if verdict.due_at is not None:
        return "active_run"
    # In the ledger although the state does not know it: a window of a former anchor.
    return "scheduled_for_future" if verdict.window is None else "already_fired"


def _as_local(
    schedule: TableSchedule, window: datetime | None, *, since: datetime | None
) -> LocalWindow | None:
    if window is None or since is None:
        return None
    [local] = local_windows(schedule, [window], since=since)
    return local
