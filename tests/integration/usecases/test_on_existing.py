"""Values that are overdue at a save: consumed without a run, or fired a few a minute."""

from datetime import timedelta

import pytest

from shared.db.connection import connect
from shared.db.roles import API, SCANNER, WORKER
from shared.domain.on_existing import FIRE, OnExisting
from shared.effects.record_writes import (
    create_records,
    delete_record,
    restore_record,
    update_record,
)
from shared.errors import Conflict
from shared.queries.invariants import list_violations
from shared.usecases import fire_dates
from shared.usecases.due_pass import due_pass, next_due_at
from shared.usecases.manage_tables import alter_table
from shared.usecases.tick import tick
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    DATE,
    DAY,
    INTERVAL,
    MINUTE,
    OVERDUE,
    a_known,
    arm,
    at,
    created,
    fired,
    ledger,
    rewrite,
    save,
    state_of,
    write,
)

CONSUME = OnExisting(mode="consume")
OLDER = "2026-07-25 07:00"
OPEN = [{"column": "amount", "op": "gt", "value": 0}]
LATER = NOW + timedelta(seconds=1)


@pytest.fixture
def table(conn):
    return insert_table(conn)


def a_date(**parts):
    return a_known(schedule=DATE, **parts)


def drip(per_minute):
    return OnExisting(mode="drip", per_minute=per_minute)


def _rows(conn, name):
    return conn.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608


def _by_run(conn):
    rows = conn.execute("SELECT by_run FROM occurrence ORDER BY record_id")
    return [by_run for (by_run,) in rows]


def test_consumed_values_are_entered_without_a_run_and_never_fire(conn, table):
    first, second, _ = write(conn, table, OVERDUE, OLDER, AHEAD)

    save(conn, table, a_date(), on_existing=CONSUME)

    assert created(conn) == 0
    assert ledger(conn) == [(first.id, OVERDUE), (second.id, OLDER)]
    assert _by_run(conn) == [False, False]
    assert created(conn, now=at(AHEAD)) == 1
    assert _rows(conn, "backlog") == 0


def test_they_are_consumed_whatever_when_says(conn, table):
    write(conn, table, {"c2": OVERDUE, "c3": 0})
    save(conn, table, a_date(when=OPEN), on_existing=CONSUME)
    created(conn)

    save(conn, table, a_date())

    assert (created(conn), len(ledger(conn))) == (0, 1)


def test_another_overdue_value_fires_also_one_that_is_written_before_the_walk_comes(conn, table):
    (record,) = write(conn, table, OVERDUE)
    save(conn, table, a_date(), on_existing=CONSUME)

    rewrite(conn, table, record, OLDER)

    assert created(conn) == 1
    assert fired(conn) == [(record.id, OLDER)]
    rewrite(conn, table, record, OVERDUE)
    assert created(conn) == 0


def test_a_write_that_read_the_table_before_a_rename_is_told_apart_too(conn, table):
    (record,) = write(conn, table, OVERDUE)
    table = save(conn, table, a_date(), on_existing=CONSUME)
    renamed = [
        {**one.to_json(), "name": "until" if one.id == "c2" else one.name} for one in table.columns
    ]
    alter_table(conn, table.id, raw_columns=renamed, now=NOW)

    update_record(conn, table, record.id, {"c2": OLDER}, now=NOW)

    assert (created(conn), fired(conn)) == (1, [(record.id, OLDER)])
    assert ledger(conn) == [(record.id, OLDER), (record.id, OVERDUE)]


def test_a_record_that_comes_after_the_save_fires_by_tick_and_by_due_pass(conn, table):
    write(conn, table, OVERDUE)
    save(conn, table, a_date(), on_existing=CONSUME)
    table = save(conn, table, a_date())

    (new,) = create_records(conn, table, [{"c2": OVERDUE}], now=NOW)
    assert len(due_pass(conn, now=NOW).references) == 1

    assert (created(conn), fired(conn)) == (0, [(new.id, OVERDUE)])


def test_a_record_that_was_deleted_at_the_save_fires_when_it_is_restored(conn, table):
    gone, going = write(conn, table, OVERDUE, OLDER)
    delete_record(conn, table, gone.id, now=NOW)
    table = save(conn, table, a_date(), on_existing=CONSUME)
    delete_record(conn, table, going.id, now=NOW)

    for record in (gone, going):
        restore_record(conn, table, record.id, now=NOW)

    assert (created(conn), fired(conn)) == (1, [(gone.id, OVERDUE)])
    assert ledger(conn) == [(gone.id, OVERDUE), (going.id, OLDER)]


def test_values_are_consumed_under_a_disabled_trigger_too(conn, table):
    write(conn, table, OVERDUE)
    save(conn, table, a_date(enabled=False), on_existing=CONSUME)
    created(conn)

    save(conn, table, a_date())

    assert (created(conn), len(ledger(conn)), _rows(conn, "backlog")) == (0, 1, 0)


def test_the_choice_concerns_new_edited_and_revived_triggers_alone(conn, table):
    write(conn, table, OVERDUE, "2026-07-25 08:30")
    before = {**DATE, "offset_minutes": 45}
    save(conn, table, a_known(schedule=before))
    assert created(conn) == 1
    write(conn, table, OLDER)

    save(conn, table, a_known(schedule=before, name="renamed"), on_existing=CONSUME)
    assert created(conn) == 1

    save(conn, table, a_date(), on_existing=CONSUME)
    assert (created(conn), len(ledger(conn))) == (0, 3)
    save(conn, table)
    write(conn, table, OLDER)
    save(conn, table, a_date(), on_existing=CONSUME)
    assert (created(conn), len(ledger(conn))) == (0, 4)


def test_a_consumption_is_not_cut_short(conn, table):
    write(conn, table, OVERDUE)
    save(conn, table, a_date(), on_existing=CONSUME)

    for triggers in ([], [a_known(schedule={**DATE, "offset_minutes": 5})]):
        with pytest.raises(Conflict) as refused:
            save(conn, table, *triggers)
        assert refused.value.code == "values_being_consumed"

    save(conn, table, a_date(name="another name"))
    created(conn)
    save(conn, table)


def test_a_column_that_is_gone_has_nothing_left_to_consume(conn, table):
    write(conn, table, OVERDUE)
    save(conn, table, a_date(), on_existing=CONSUME)
    title = {"id": "c1", "name": "title", "type": "text"}
    alter_table(conn, table.id, raw_columns=[title], now=NOW)
    created(conn)

    save(conn, table)

    assert _rows(conn, "backlog") == 0


def test_a_drip_fires_the_oldest_a_few_a_minute_and_ends_by_itself(conn, table):
    *records, _ = write(conn, table, OVERDUE, "2020-01-03", "2020-01-01", "2020-01-02", AHEAD)
    save(conn, table, a_date(), on_existing=drip(2))

    assert [created(conn, now=NOW + seconds) for seconds in _seconds(0, 59, 60, 61)] == [2, 0, 2, 0]

    oldest_first = [records[number].id for number in (2, 3, 1, 0)]
    assert [record_id for record_id, _ in fired(conn)] == oldest_first
    assert _rows(conn, "backlog") == 1
    created(conn, now=NOW + 2 * MINUTE)
    assert (_rows(conn, "backlog"), _rows(conn, "held_value")) == (0, 0)


def _seconds(*numbers):
    return [timedelta(seconds=number) for number in numbers]


def test_a_due_pass_lets_it_drip_too_and_knows_when(conn, table):
    write(conn, table, *[OVERDUE] * 3)
    save(conn, table, a_date(), on_existing=drip(1))
    assert created(conn) == 1

    assert next_due_at(conn) == NOW + MINUTE
    assert due_pass(conn, now=NOW + timedelta(seconds=59)).references == ()
    assert len(due_pass(conn, now=NOW + MINUTE).references) == 1
    assert created(conn, now=NOW + MINUTE) == 0
    assert created(conn, now=NOW + 2 * MINUTE) == 1


def test_a_large_helping_fires_in_parts(conn, table, monkeypatch):
    monkeypatch.setattr(fire_dates, "RELEASED_AT_ONCE", 2)
    write(conn, table, *[OVERDUE] * 6)
    save(conn, table, a_date(), on_existing=drip(5))

    assert created(conn) == 2

    counts = []
    while next_due_at(conn) == NOW:
        counts.append(len(due_pass(conn, now=NOW).references))
    assert (counts, next_due_at(conn)) == ([2, 1], NOW + MINUTE)


def test_what_comes_due_later_is_not_held_back(conn, table):
    held, other, _ = write(conn, table, OVERDUE, OVERDUE, AHEAD)
    save(conn, table, a_date(), on_existing=drip(1))
    created(conn)

    rewrite(conn, table, other, OLDER)
    assert len(due_pass(conn, now=NOW).references) == 1
    assert created(conn, now=at(AHEAD)) == 1
    assert {record_id for record_id, _ in fired(conn)} >= {held.id, other.id}


def test_a_write_to_another_cell_gets_no_value_past_the_drip(conn, table):
    _, waiting = write(conn, table, OLDER, OVERDUE)
    table = save(conn, table, a_date(), on_existing=drip(1))
    assert created(conn) == 1

    rewrite(conn, table, waiting, f"{OVERDUE}:30")

    assert due_pass(conn, now=NOW).references == ()
    assert created(conn, now=NOW + MINUTE) == 1


def test_a_later_choice_takes_the_place_of_a_drip(conn, table):
    write(conn, table, *[OVERDUE] * 5)
    edited = a_known(schedule={**DATE, "offset_minutes": 5})
    save(conn, table, a_date(), on_existing=drip(1))
    created(conn)

    save(conn, table, edited, on_existing=drip(2))
    assert created(conn) == 2
    save(conn, table, a_date(), on_existing=FIRE)
    assert created(conn) == 2
    assert _rows(conn, "backlog") == _rows(conn, "held_value") == 0


def test_held_back_rows_lie_ahead_in_the_preview_which_warns(conn, table):
    write(conn, table, *[{"c2": OVERDUE, "c3": number} for number in range(3)], AHEAD)
    save(conn, table, a_date(when=OPEN), on_existing=drip(1))

    told = arm(conn, table)

    assert (told["due_now"], told["scheduled_for_future"]) == (0, 3)
    assert told["when_filter_mismatch"] == 1
    assert told["warnings"] == ["backlog_dripping"]
    save(conn, table, a_date(id="trg_00000000cccc"), on_existing=CONSUME)
    told = arm(conn, table)
    assert (told["due_now"], told["already_fired"]) == (0, 3)
    assert told["warnings"] == ["backlog_being_consumed"]


def test_clock_triggers_are_not_concerned(conn, table):
    save(conn, table, a_known(schedule=INTERVAL), on_existing=CONSUME)

    assert (created(conn), _rows(conn, "backlog")) == (1, 0)


def test_a_walk_in_pages_consumes_every_one(conn, table):
    write(conn, table, *[OVERDUE] * 30)
    save(conn, table, a_date(), on_existing=CONSUME)

    assert tick(conn, record_limit=2, now=NOW).unfinished
    assert len(ledger(conn)) == 22
    assert due_pass(conn, now=NOW).references == ()
    tick(conn, record_limit=2, now=NOW)

    assert (len(ledger(conn)), fired(conn), state_of(conn).backlog) == (30, [], None)


def test_what_a_tick_older_than_the_save_meets_is_consumed_all_the_same(conn, table):
    write(conn, table, "2026-07-25 09:00")
    save(conn, table, a_date(), on_existing=CONSUME, now=LATER)

    tick(conn, now=NOW - MINUTE)
    assert created(conn, now=NOW + DAY) == 0


@pytest.mark.parametrize("mode", ["consume", "drip"])
def test_the_invariants_hold(conn, table, mode):
    write(conn, table, *[OVERDUE] * 5)
    rate = 2 if mode == "drip" else None
    save(conn, table, a_date(), on_existing=OnExisting(mode=mode, per_minute=rate))
    for minute in range(4):
        created(conn, now=NOW + minute * MINUTE)

    assert len(ledger(conn)) == 5
    assert list_violations(conn, settled_before=NOW, limit=10) == []


def test_each_service_may_do_its_part(conn, database_url, table):
    records = write(conn, table, OVERDUE, OVERDUE, OVERDUE)
    sessions = [
        connect(database_url, application_name="service", role=role)
        for role in (API, SCANNER, WORKER)
    ]
    api, scanner, worker = sessions
    api.bind(table.tenant_id)

    save(api, table, a_date(), on_existing=CONSUME)
    with worker.transaction():
        rewrite(worker, table, records[0], OLDER)
    with api.transaction():
        rewrite(api, table, records[1], AHEAD)
    assert created(scanner) == 1
    save(api, table, a_known(schedule={**DATE, "offset_minutes": 5}), on_existing=drip(1))
    assert created(scanner) == 0
    for session in sessions:
        session.close()

    assert [record_id for record_id, _ in ledger(conn)] == [
        records[0].id,
        records[0].id,
        records[1].id,
        records[2].id,
    ]


def test_a_write_that_outlasts_a_consumption_is_none_of_the_next(conn, other_conn, table):
    write(conn, table, OVERDUE)
    table = save(conn, table, a_date(), on_existing=CONSUME)
    with other_conn.transaction():
        (record,) = create_records(other_conn, table, [{"c2": OVERDUE}], now=NOW)
        created(conn)
    assert (created(conn), fired(conn)) == (1, [(record.id, OVERDUE)])

    rewrite(conn, table, record, OLDER)
    edited = a_known(schedule={**DATE, "offset_minutes": -1})
    save(conn, table, edited, on_existing=CONSUME, now=LATER)

    assert (created(conn, now=LATER), len(ledger(conn))) == (0, 3)
