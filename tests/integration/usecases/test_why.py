"""Why a trigger fires or not: each class, the clause, the cell, the entry of the ledger."""

from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.domain.on_existing import OnExisting
from shared.effects.record_writes import create_records, delete_record
from shared.errors import InvalidInput, NotFound
from shared.queries.custom_tables import get_table
from shared.usecases.manage_tables import alter_table, trash_table
from shared.usecases.preview_arms import second
from shared.usecases.why import why
from tests.builders import a_stored_trigger
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    CRON,
    DAILY,
    DATE,
    DAY,
    HOUR,
    INTERVAL,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    arm,
    at,
    created,
    end_runs,
    poison_cell,
    rewrite,
    runs,
    save,
    write,
)

WHEN = [
    {"column": "title", "op": "neq", "value": "done"},
    {"column": "amount", "op": "gt", "value": 5},
]
FITS = {"c1": "open", "c3": 7}
CLASSES = (
    "already_fired",
    "missing_schedule_value",
    "invalid_schedule_value",
    "scheduled_for_future",
    "when_filter_mismatch",
    "due_now",
)


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _dated(conn, table, *cells, **parts):
    save(conn, table, a_known(schedule=DATE, when=WHEN, **parts))
    return write(conn, table, *[{**FITS, "c2": cell} for cell in cells])


def _why(conn, table, record=None, *, now=NOW, **options):
    record_id = None if record is None else record.id
    return why(conn, table, TRIGGER_ID, record_id=record_id, now=now, **options)


@pytest.mark.parametrize(
    ("cells", "verdict"),
    [
        ({**FITS, "c2": OVERDUE}, "due_now"),
        ({**FITS, "c2": AHEAD}, "scheduled_for_future"),
        ({**FITS, "c2": None}, "missing_schedule_value"),
        (FITS, "missing_schedule_value"),
        ({**FITS, "c2": "tomorrow"}, "invalid_schedule_value"),
        ({**FITS, "c1": "done", "c2": OVERDUE}, "when_filter_mismatch"),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_a_row_is_in_the_class_that_preview_counts_it_in(conn, table, cells, verdict, enabled):
    save(conn, table, a_known(schedule=DATE, when=WHEN, enabled=enabled))
    [record] = write(conn, table, cells)

    told = _why(conn, table, record)

    assert told.verdict == verdict
    assert told.fires == (enabled and verdict == "due_now")
    assert told.warnings == ([] if enabled else ["trigger_disabled"])
    counted = arm(conn, table)
    assert [name for name in CLASSES if counted[name]] == [verdict]
    assert created(conn) == int(told.fires)


def test_the_cell_is_told_as_it_is_read(conn, table):
    schedule = {**DATE, "offset_minutes": -90}
    save(conn, table, a_known(schedule=schedule))
    [record] = write(conn, table, " 2026-07-25T10:30:59+08:00 ")

    told = _why(conn, table, record)

    assert told.cell.column == "due"
    assert told.cell.value == " 2026-07-25T10:30:59+08:00 "
    assert told.cell.identity == "2026-07-25 10:30"
    assert (told.cell.instant, told.cell.fire_at) == (at("2026-07-25 10:30"), NOW)
    assert told.verdict == "due_now"


def test_the_first_clause_that_does_not_match_is_told_with_the_cell_it_saw(conn, table):
    [fits] = _dated(conn, table, OVERDUE)
    [late, first, second_] = write(
        conn,
        table,
        {"c1": "done", "c2": AHEAD},
        {"c1": "done", "c2": OVERDUE, "c3": 1},
        {"c1": "open", "c2": OVERDUE, "c3": 5},
    )

    told = [_why(conn, table, record).clause for record in (fits, late, first, second_)]

    assert told[0] is None
    # Whatever the class: it is what keeps the row from firing tomorrow.
    assert (told[1].index, told[1].cell) == (0, "done")
    assert (told[2].index, told[2].predicate, told[2].cell) == (0, WHEN[0], "done")
    assert (told[3].index, told[3].predicate, told[3].cell) == (1, WHEN[1], 5)


def test_a_fired_value_is_told_with_its_entry_and_its_run_as_it_is_now(conn, table):
    [record] = _dated(conn, table, OVERDUE)
    created(conn)
    [run] = runs(conn)

    pending = _why(conn, table, record)
    end_runs(conn, status="failed")
    failed = _why(conn, table, record)
    conn.execute("DELETE FROM trigger_run")
    deleted = _why(conn, table, record)

    for told in (pending, failed, deleted):
        assert (told.verdict, told.fires) == ("already_fired", False)
        assert (told.ledger.identity, told.ledger.by_run) == (OVERDUE, True)
        assert told.ledger.consumed_at == NOW
        assert told.history == [told.ledger]
    assert (pending.ledger.run_id, pending.ledger.run_status) == (run["id"], "pending")
    assert (failed.ledger.run_status, failed.ledger.run_error) == ("failed", "it failed")
    assert (deleted.ledger.run_id, deleted.ledger.run_status) == (None, None)


def test_values_of_before_are_the_history(conn, table):
    [record] = _dated(conn, table, OVERDUE)
    created(conn)
    rewrite(conn, table, record, "2026-07-25 08:30")
    created(conn, now=NOW + HOUR)
    rewrite(conn, table, record, AHEAD)

    told = _why(conn, table, record, now=NOW + HOUR)

    assert (told.verdict, told.ledger) == ("scheduled_for_future", None)
    assert [one.identity for one in told.history] == ["2026-07-25 08:30", OVERDUE]
    assert told.look_at == at(AHEAD)


def test_a_deleted_row_and_one_of_another_table(conn, table):
    [record] = _dated(conn, table, OVERDUE)
    delete_record(conn, get_table(conn, table.id), record.id, now=NOW)
    other = insert_table(conn, tenant_id=table.tenant_id)
    [elsewhere] = write(conn, other, OVERDUE)

    told = _why(conn, table, record)

    assert (told.verdict, told.fires, told.cell.identity) == ("record_deleted", False, OVERDUE)
    with pytest.raises(NotFound) as caught:
        _why(conn, table, elsewhere)
    assert caught.value.code == "record_not_found"


def test_a_row_that_cannot_be_read_is_set_aside_only_where_its_cells_are_asked(conn, table):
    due, ahead = _dated(conn, table, OVERDUE, AHEAD)
    for record in (due, ahead):
        poison_cell(conn, record, "c3")

    assert _why(conn, table, due).verdict == "record_unreadable"
    assert _why(conn, table, ahead).verdict == "scheduled_for_future"
    assert created(conn) == 0


def test_a_broken_trigger_says_so_and_a_removed_one_keeps_its_ledger(conn, table):
    [record] = _dated(conn, table, OVERDUE)
    created(conn)
    alter_table(conn, table.id, raw_columns=[{"name": "due", "type": "datetime"}], now=NOW)
    broken = _why(conn, table, record)
    save(conn, table)
    removed = _why(conn, table, record)

    assert (broken.verdict, broken.fires) == ("config_invalid", False)
    assert broken.error_codes == ["when_column_missing"]
    assert (removed.verdict, removed.warnings) == ("trigger_removed", ["trigger_removed"])
    assert removed.kind == "date_column_reached"
    for told in (broken, removed):
        assert [one.identity for one in told.history] == [OVERDUE]


def test_a_trigger_without_its_state_and_one_stored_twice_are_broken(conn, table):
    [record] = write(conn, table, OVERDUE)
    stored = a_stored_trigger(id=TRIGGER_ID, schedule=DATE)
    for triggers, code in (
        ([stored], "schedule_state_missing"),
        ([stored, stored], "trigger_id_duplicate"),
    ):
        conn.execute("UPDATE custom_table SET triggers = %s", [Jsonb(triggers)])

        told = _why(conn, table, record)

        assert (told.verdict, told.error_codes) == ("config_invalid", [code])


def test_what_is_not_there(conn, table):
    _dated(conn, table)
    trashed = insert_table(conn, tenant_id=table.tenant_id)
    save(conn, trashed, a_known())
    trash_table(conn, trashed.id, now=NOW)

    for ask, code in (
        (lambda: why(conn, table, "trg_00000000ffff", record_id=1), "trigger_not_found"),
        (lambda: why(conn, table, TRIGGER_ID, record_id=2**63 - 1), "record_not_found"),
        (lambda: why(conn, trashed, TRIGGER_ID), "table_not_found"),
    ):
        with pytest.raises(NotFound) as caught:
            ask()
        assert caught.value.code == code


def test_a_record_is_for_those_that_have_one(conn, table):
    save(
        conn,
        table,
        a_known(schedule=DATE),
        a_known(id="trg_00000000eeee", on="record_created"),
        a_known(id="trg_00000000cccc"),
    )

    for trigger_id, record_id, code in (
        (TRIGGER_ID, None, "record_missing"),
        ("trg_00000000eeee", None, "record_missing"),
        ("trg_00000000cccc", 1, "record_not_expected"),
    ):
        with pytest.raises(InvalidInput) as caught:
            why(conn, table, trigger_id, record_id=record_id)
        assert [(one.code, one.pointer) for one in caught.value.faults] == [(code, "/record_id")]


@pytest.mark.parametrize("on", ["record_created", "record_updated", "record_deleted"])
def test_whether_the_when_of_an_event_matches_a_row_now(conn, table, on):
    when = [*WHEN, {"column": "title", "op": "changed"}] if on == "record_updated" else WHEN
    save(conn, table, a_known(on=on, when=when))
    rows = [FITS, {**FITS, "c3": 5}]
    fits, other = create_records(conn, get_table(conn, table.id), rows, now=NOW)

    told, refused = _why(conn, table, fits), _why(conn, table, other)

    assert (told.kind, told.verdict, told.fires, told.clause) == (on, "matches", True, None)
    assert (refused.verdict, refused.fires) == ("when_filter_mismatch", False)
    assert (refused.clause.index, refused.clause.cell) == (1, 5)
    made = [run["id"] for run in runs(conn)]
    assert [one.last_run.id for one in (told, refused) if one.last_run] == made
    assert len(made) == int(on == "record_created")


def test_an_event_on_a_deleted_and_on_an_unreadable_row(conn, table):
    save(conn, table, a_known(on="record_updated", when=WHEN))
    gone, poisoned = create_records(conn, get_table(conn, table.id), [FITS, FITS], now=NOW)
    delete_record(conn, get_table(conn, table.id), gone.id, now=NOW)
    poison_cell(conn, poisoned, "c3")

    assert _why(conn, table, gone).verdict == "record_deleted"
    assert _why(conn, table, poisoned).verdict == "record_unreadable"


@pytest.mark.parametrize("schedule", CLOCKS)
def test_a_clock_is_told_as_the_preview_tells_it_through_the_life_of_its_runs(
    conn, table, schedule
):
    save(conn, table, a_known(schedule=schedule), now=NOW - DAY)
    seen = []
    for step in ("due", "fired", "fenced", "ended"):
        if step == "fired":
            created(conn)
        if step == "ended":
            end_runs(conn)
        now = NOW if step in ("due", "fired") else NOW + DAY
        told, counted = _why(conn, table, now=now), arm(conn, table, now=now)
        seen.append((told.verdict, told.fires))
        assert (told.fires, second(told.due_at)) == (counted["due_now"], counted["due_at"])
        assert (told.active_run is not None) == counted["active_run"]
        assert second(told.last_consumed_window_at) == counted["last_consumed_window_at"]
        assert told.anchor_at <= told.window.at <= now < told.next.at

    assert seen == [
        ("due_now", True),
        ("scheduled_for_future", False),
        ("active_run", False),
        ("due_now", True),
    ]


def test_the_ledger_of_a_clock_has_its_window_and_run(conn, table):
    save(conn, table, a_known(schedule=INTERVAL))
    created(conn)
    [run] = runs(conn)

    told = _why(conn, table)

    assert (told.ledger.identity, told.ledger.by_run) == ("2026-07-25T09:00:00Z", True)
    assert (told.ledger.run_id, told.ledger.run_status) == (run["id"], "pending")
    assert (told.active_run.id, told.window.at) == (run["id"], NOW)


def test_a_window_of_a_former_anchor_is_in_the_ledger_and_not_due_again(conn, table):
    save(conn, table, a_known(schedule=DAILY))
    created(conn)
    end_runs(conn)
    save(conn, table, a_known(schedule={**DAILY, "at": "23:00"}))
    save(conn, table, a_known(schedule=DAILY))

    told = _why(conn, table)

    assert (told.verdict, told.fires) == ("already_fired", False)
    assert told.ledger.identity == "2026-07-25T09:00:00Z"
    assert told.last_consumed_window_at is None
    assert created(conn) == 0


def test_a_clock_before_its_first_window_and_one_that_never_comes(conn, table):
    save(conn, table, a_known(schedule=CRON))
    before = _why(conn, table)
    save(conn, table, a_known(schedule={**CRON, "expression": "0 0 30 2 *"}))
    never = _why(conn, table)

    assert (before.verdict, before.window) == ("scheduled_for_future", None)
    assert before.next.at == at("2026-07-26 09:00")
    assert (never.verdict, never.window, never.next) == ("scheduled_for_future", None, None)


def test_the_local_time_of_a_window(conn, table):
    schedule = {"type": "daily", "at": "02:30", "timezone": "America/New_York"}
    save(conn, table, a_known(schedule=schedule), now=at("2026-03-08 00:00"))

    told = _why(conn, table, now=at("2026-03-08 12:00"))

    assert (told.window.local, told.window.offset) == ("2026-03-08T03:30:00", "-04:00")
    assert told.window.notes == ("skipped_wall_time",)
    assert told.window.key == "20260308"


def test_of_another_tenant_nothing_is_known(conn, table):
    [record] = _dated(conn, table, OVERDUE)
    foreign = insert_table(conn)
    save(conn, foreign, a_known(schedule=DATE))

    with pytest.raises(NotFound):
        _why(conn, foreign, record)
    with pytest.raises(NotFound):
        why(conn, foreign, f"trg_{uuid4().hex[:12]}", record_id=record.id)


def test_what_a_save_holds_back_or_consumes_is_told(conn, table):
    records = write(conn, table, *[{**FITS, "c2": OVERDUE}] * 3)
    drip = OnExisting(mode="drip", per_minute=1)
    save(conn, table, a_known(schedule=DATE, when=WHEN), on_existing=drip)
    assert {_why(conn, table, record).verdict for record in records} == {"held_back"}

    created(conn)

    told = [_why(conn, table, record) for record in records]
    assert [one.verdict for one in told] == ["already_fired", "held_back", "held_back"]
    assert not any(one.fires for one in told)


def test_a_value_that_a_save_consumed_has_an_entry_without_a_run(conn, table):
    [record] = write(conn, table, {**FITS, "c2": OVERDUE})
    save(conn, table, a_known(schedule=DATE), on_existing=OnExisting(mode="consume"))
    verdicts = [_why(conn, table, record).verdict]
    created(conn)

    told = _why(conn, table, record)

    verdicts.append(told.verdict)
    assert verdicts == ["consumed_by_save", "already_fired"]
    assert (told.ledger.by_run, told.ledger.run_id) == (False, None)
    assert runs(conn) == []
