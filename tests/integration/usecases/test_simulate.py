"""The simulation: the preview's arms of what is not saved, over the whole table; read only."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from shared.db.clock import server_now
from shared.domain.on_existing import OnExisting
from shared.errors import InvalidInput, NotFound
from shared.queries.custom_tables import get_table
from shared.usecases import tenant_limits
from shared.usecases.preview import preview
from shared.usecases.simulate import simulate
from tests.builders import a_table, a_trigger
from tests.builders_db import NOW, insert_table
from tests.integration.api.workspace import EVERYTHING
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    CRON,
    DAILY,
    DATE,
    DAY,
    HOUR,
    INTERVAL,
    OTHER_ID,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    at,
    created,
    end_runs,
    poison_cell,
    save,
    write,
)

MORE = {"upcoming", "fires_within_24_hours", "oldest_due_at"}


def _simulated(conn, table, *triggers, now=NOW, **options):
    return simulate(conn, table, list(triggers), now=now, **options)


def _arm(conn, table, trigger, *, now=NOW, **options):
    [told] = _simulated(conn, table, trigger, now=now, **options).triggers
    return told


def _as_previewed(told):
    return {key: value for key, value in told.items() if key not in MORE}


def _rows(conn):
    (statement,) = conn.execute(EVERYTHING).fetchone()
    return conn.execute(statement).fetchall()


WHEN = [{"column": "title", "op": "neq", "value": "done"}]
ROWS = (
    OVERDUE,
    "2026-07-20",
    AHEAD,
    "2026-08-30",
    None,
    "soon",
    {"c1": "done", "c2": OVERDUE},
    {},
)


@pytest.mark.parametrize(
    "trigger",
    [
        a_known(schedule=DATE),
        a_known(schedule={**DATE, "offset_minutes": -60}, when=WHEN),
        a_known(schedule=DATE, enabled=False),
        *[a_known(schedule=schedule) for schedule in CLOCKS],
        a_known(schedule=DAILY, enabled=False, when=WHEN),
        a_known(schedule={**CRON, "expression": "0 0 30 2 *"}),
    ],
)
@pytest.mark.parametrize("life", ["new", "stored", "edited", "revived"])
def test_it_tells_what_the_preview_tells_behind_the_save_and_the_tick_does(conn, trigger, life):
    table = insert_table(conn)
    write(conn, table, *ROWS)
    if life != "new":
        kind = trigger["schedule"]["type"]
        edits = {
            "date_column_reached": {"offset_minutes": 5},
            "interval": {"every_seconds": 60},
            "daily": {"at": "01:00"},
            "cron": {"expression": "1 1 1 1 *"},
        }
        before = {**trigger["schedule"], **(edits[kind] if life == "edited" else {})}
        save(conn, table, {**trigger, "schedule": before, "enabled": True}, now=NOW - DAY)
        created(conn, now=NOW - HOUR)
        end_runs(conn)
        write(conn, table, OVERDUE)
    if life == "revived":
        save(conn, table, now=NOW - HOUR)

    told = _arm(conn, table, trigger)

    save(conn, table, trigger)
    [previewed] = preview(conn, table, now=NOW).triggers
    assert _as_previewed(told) == previewed
    expected = int(told["due_now"]) if trigger.get("enabled", True) else 0
    assert created(conn) == expected


def test_a_conflict_of_the_save_is_told(conn, monkeypatch):
    table = insert_table(conn)
    write(conn, table, OVERDUE)
    save(conn, table, a_known(schedule=DATE), on_existing=OnExisting(mode="consume"))

    told = _simulated(conn, table, a_known(schedule={**DATE, "offset_minutes": 5}))

    assert [(fault.code, fault.pointer) for fault in told.faults] == [
        ("values_being_consumed", "/triggers")
    ]
    assert _simulated(conn, table, a_known(schedule=DATE)).faults == ()

    monkeypatch.setattr(tenant_limits, "TRIGGERS", replace(tenant_limits.TRIGGERS, most=1))
    told = _simulated(conn, table, a_known(schedule=DATE), a_trigger(schedule=DAILY))
    assert [fault.code for fault in told.faults] == ["triggers_too_many"]


def test_nothing_is_stored(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, *ROWS)
    before = _rows(conn)

    told = _simulated(conn, table, a_known(schedule=DATE), *[a_trigger(schedule=s) for s in CLOCKS])

    assert [one["kind"] for one in told.triggers] == ["date_column_reached"] + [
        schedule["type"] for schedule in CLOCKS
    ]
    assert [one["trigger_id"] for one in told.triggers] == [TRIGGER_ID, None, None, None]
    assert _rows(conn) == before


def test_the_whole_table_is_counted_and_what_lies_ahead(conn):
    table = insert_table(conn)
    write(conn, table, *ROWS, AHEAD, "2026-07-26 09:00", "2026-07-26 09:01")

    told = _simulated(conn, table, a_trigger(schedule=DATE, when=WHEN))

    assert told.live_records == 11
    assert told.faults == ()
    [arm] = told.triggers
    assert list(arm.items()) == [
        ("kind", "date_column_reached"),
        ("trigger_id", None),
        ("config_status", "valid"),
        ("records_scanned", 11),
        ("already_fired", 0),
        ("missing_schedule_value", 2),
        ("invalid_schedule_value", 1),
        ("scheduled_for_future", 5),
        ("when_filter_mismatch", 1),
        ("due_now", 2),
        ("unscanned", 0),
        ("truncated", False),
        ("warnings", []),
        ("oldest_due_at", "2026-07-20T00:00:00"),
        ("fires_within_24_hours", 3),
    ]


def test_values_that_have_fired_under_the_id_do_not_burst_again(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, OVERDUE, OVERDUE)
    created(conn)
    save(conn, table)

    again, anew = (
        _arm(conn, table, trigger)
        for trigger in (a_known(schedule=DATE), a_known(id=OTHER_ID, schedule=DATE))
    )

    assert (again["already_fired"], again["due_now"]) == (2, 0)
    assert (anew["already_fired"], anew["due_now"]) == (0, 2)


def test_a_disabled_trigger_is_judged_as_if_it_were_enabled_but_fires_nothing(conn):
    table = insert_table(conn)
    write(conn, table, OVERDUE, AHEAD)

    told = _arm(conn, table, a_trigger(schedule=DATE, enabled=False))

    assert (told["due_now"], told["warnings"]) == (1, ["trigger_disabled"])
    assert (told["oldest_due_at"], told["fires_within_24_hours"]) == (None, 0)


def test_the_next_ten_windows_of_a_clock_with_what_is_odd_about_them(conn):
    schedule = {"type": "daily", "at": "02:30", "timezone": "America/New_York"}

    told = _arm(conn, insert_table(conn), a_trigger(schedule=schedule), now=at("2026-03-07 12:00"))

    assert told["due_at"] == "2026-03-07T07:30:00"
    assert [
        (one["at"], one["local"], one["offset"], one["notes"]) for one in told["upcoming"][:2]
    ] == [
        (
            "2026-03-08T07:30:00",
            "2026-03-08T03:30:00",
            "-04:00",
            ["offset_changes", "skipped_wall_time"],
        ),
        ("2026-03-09T06:30:00", "2026-03-09T02:30:00", "-04:00", []),
    ]
    assert len(told["upcoming"]) == 10
    assert told["fires_within_24_hours"] == 1


def test_a_missed_window_of_a_trigger_that_comes_back_is_told(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=CRON), now=NOW - 2 * DAY)
    save(conn, table, now=NOW - 2 * DAY)

    told = _arm(conn, table, a_known(schedule=CRON), now=NOW + HOUR)

    assert (told["due_at"], told["due_now"]) == ("2026-07-25T09:00:00", True)


def test_a_broken_trigger_hides_no_healthy_one_and_all_is_told_that_a_save_would_refuse(conn):
    table = insert_table(conn)
    broken = [
        a_trigger(schedule={"type": "monthly"}, enabled=False),
        a_trigger(schedule={**DATE, "column": "gone"}, when=[{"column": "title", "op": "like"}]),
        a_trigger(actions=[{"type": "webhook", "url": "x"}]),
        a_trigger(on="record_created", when=[{"column": "gone", "op": "not_empty"}]),
        7,
    ]

    told = _simulated(conn, table, *broken, a_trigger())

    assert [(one["kind"], one.get("error_codes"), one["warnings"]) for one in told.triggers] == [
        ("invalid", ["unsupported_schedule_type"], ["trigger_disabled"]),
        ("invalid", ["schedule_column_missing", "when_predicate_invalid"], []),
        ("interval", None, []),
        ("invalid", ["stored_schedule_invalid"], []),
        ("interval", None, []),
    ]
    with pytest.raises(InvalidInput) as caught:
        save(conn, table, *broken, a_trigger())
    assert told.faults == caught.value.faults
    assert {fault.pointer.split("/")[2] for fault in told.faults} == {"0", "1", "2", "3", "4"}


def test_another_kind_under_an_id_and_an_id_twice_are_invalid(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))

    other, *twice = _simulated(
        conn, table, a_known(schedule=DAILY), *[a_known(id=OTHER_ID)] * 2
    ).triggers

    assert other["error_codes"] == ["stored_schedule_invalid"]
    assert [one["error_codes"] for one in twice] == [["trigger_id_duplicate"]] * 2


@pytest.mark.parametrize("raw", [None, {}, "x", [a_trigger()] * 101])
def test_what_is_no_list_or_too_long_a_one_is_refused(conn, raw):
    with pytest.raises(InvalidInput) as caught:
        simulate(conn, insert_table(conn), raw, now=NOW)

    assert [fault.code for fault in caught.value.faults] == ["triggers_invalid"]


def test_what_cannot_be_counted_in_time_is_said(conn):
    table = insert_table(conn)
    write(conn, table, OVERDUE, AHEAD)

    told = _arm(conn, table, a_trigger(schedule=DATE), seconds=0)

    assert (told["records_scanned"], told["unscanned"], told["truncated"]) == (0, 2, True)
    assert told["fires_within_24_hours"] is None


def test_a_record_that_cannot_be_read_counts_as_invalid(conn):
    table = insert_table(conn)
    records = write(conn, table, *[OVERDUE] * 3)
    poison_cell(conn, records[1], "c1")

    told = _arm(conn, table, a_trigger(schedule=DATE, when=WHEN))

    assert (told["invalid_schedule_value"], told["due_now"]) == (1, 2)


def test_an_absent_table_is_none_and_without_a_now_the_servers_clock_counts(conn):
    before = server_now(conn)

    told = simulate(conn, insert_table(conn), [])

    assert before < told.evaluated_at < before + timedelta(minutes=1)
    assert (told.triggers, told.faults) == ([], ())
    with pytest.raises(NotFound):
        simulate(conn, a_table(id=uuid4()), [])


def test_renamed_columns_count_under_their_present_names(conn):
    table = insert_table(conn)
    stale = get_table(conn, table.id)
    conn.execute("UPDATE custom_table SET columns = replace(columns::text, 'due', 'term')::jsonb")

    assert _arm(conn, stale, a_trigger(schedule={**DATE, "column": "term"}))["kind"] != "invalid"
