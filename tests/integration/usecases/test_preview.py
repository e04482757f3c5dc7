"""The schedule preview: exact arms, classes, warnings, codes; read only (spec 1 §8)."""

import json
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.columns import Column
from shared.errors import NotFound
from shared.queries.custom_tables import get_table
from shared.usecases.manage_tables import alter_table, trash_table
from shared.usecases.preview import preview
from tests.builders import AN_ACTION, a_stored_trigger, a_table, a_trigger
from tests.builders_db import COLUMNS, LONG_AGO, NOW, insert_state, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    CRON,
    DAILY,
    DATE,
    DAY,
    INTERVAL,
    MINUTE,
    OTHER_ID,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    arm,
    at,
    created,
    end_runs,
    ledger,
    poison_cell,
    runs,
    save,
    write,
)

CLASSES = (
    "already_fired",
    "missing_schedule_value",
    "invalid_schedule_value",
    "scheduled_for_future",
    "when_filter_mismatch",
    "due_now",
)


def _classes(told):
    return {name: told[name] for name in CLASSES if told[name]}


def _store(conn, table, *triggers):
    """Store triggers as nobody could save them."""
    conn.execute(
        "UPDATE custom_table SET triggers = %s WHERE id = %s", [Jsonb(list(triggers)), table.id]
    )


def _codes(conn, table, trigger):
    _store(conn, table, trigger)
    told = arm(conn, table)
    assert (told["kind"], told["config_status"]) == ("invalid", "invalid")
    return told["error_codes"]


def test_the_whole_is_of_one_moment_and_one_table(conn):
    table = insert_table(conn)
    save(conn, table, a_trigger(), a_trigger(on="record_created"), a_trigger(schedule=DATE))
    write(conn, table, OVERDUE, AHEAD)

    seen = preview(conn, table, record_limit=7, now=NOW)

    assert (seen.table_id, seen.evaluated_at) == (table.id, NOW)
    assert (seen.live_records, seen.record_limit) == (2, 7)
    assert [one["kind"] for one in seen.triggers] == ["interval", "date_column_reached"]


def test_without_a_now_the_servers_clock_counts(conn):
    before = server_now(conn)

    seen = preview(conn, insert_table(conn))

    assert before < seen.evaluated_at < server_now(conn)
    assert (seen.record_limit, seen.triggers) == (1000, [])


def test_the_arm_of_a_date_trigger(conn):
    table = insert_table(conn)
    when = [{"column": "title", "op": "neq", "value": "done"}]
    save(conn, table, a_known(schedule=DATE, when=when))
    fired_before = {"c2": "2026-07-20"}
    write(conn, table, fired_before)
    created(conn)
    write(
        conn,
        table,
        OVERDUE,
        OVERDUE,
        AHEAD,
        AHEAD,
        AHEAD,
        "tomorrow",
        None,
        "  ",
        {},
        {"c1": "done", "c2": OVERDUE},
        {"c1": "done", "c2": AHEAD},
    )

    told = arm(conn, table)

    assert list(told.items()) == [
        ("kind", "date_column_reached"),
        ("trigger_id", TRIGGER_ID),
        ("config_status", "valid"),
        ("records_scanned", 12),
        ("already_fired", 1),
        ("missing_schedule_value", 3),
        ("invalid_schedule_value", 1),
        ("scheduled_for_future", 4),
        ("when_filter_mismatch", 1),
        ("due_now", 2),
        ("unscanned", 0),
        ("truncated", False),
        ("warnings", []),
    ]


def test_a_class_is_decided_before_the_next_is_asked(conn):
    table = insert_table(conn)
    when = [{"column": "title", "op": "eq", "value": "open"}]
    save(conn, table, a_known(schedule=DATE, when=when))
    write(conn, table, {"c1": "open", "c2": OVERDUE})
    created(conn)
    save(conn, table, a_known(schedule={**DATE, "offset_minutes": 1440}, when=when))
    conn.execute('UPDATE record SET data = data || \'{"c1": "closed"}\'')

    # Fired before, ahead now and refused by when: it is told as fired.
    assert _classes(arm(conn, table)) == {"already_fired": 1}


def test_deleted_records_do_not_count(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, OVERDUE, OVERDUE)
    conn.execute(
        "UPDATE record SET deleted_at = updated_at WHERE id = (SELECT min(id) FROM record)"
    )

    seen = preview(conn, table, now=NOW)

    assert seen.live_records == 1
    assert _classes(seen.triggers[0]) == {"due_now": 1}


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 9])
def test_the_page_is_the_first_that_the_next_tick_reads(conn, limit):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, OVERDUE, AHEAD, None, "x", AHEAD)
    created(conn, record_limit=3)
    # The cursor is behind the third: the fourth, the fifth, then the first.
    order = [
        "invalid_schedule_value",
        "scheduled_for_future",
        "already_fired",
        "scheduled_for_future",
        "missing_schedule_value",
    ]

    told = arm(conn, table, record_limit=limit)

    expected = {}
    for name in order[:limit]:
        expected[name] = expected.get(name, 0) + 1
    assert _classes(told) == expected
    scanned = min(limit, 5)
    assert (told["records_scanned"], told["unscanned"]) == (scanned, 5 - scanned)
    assert told["truncated"] == (scanned < 5)


@pytest.mark.parametrize("schedule", CLOCKS)
def test_the_arm_of_a_clock_before_its_first_window(conn, schedule):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule), now=NOW)

    told = arm(conn, table)

    due_at = None if schedule is CRON else "2026-07-25T09:00:00"
    assert list(told.items()) == [
        ("kind", schedule["type"]),
        ("trigger_id", TRIGGER_ID),
        ("config_status", "valid"),
        ("last_consumed_window_at", None),
        ("due_at", due_at),
        ("due_now", due_at is not None),
        ("active_run", False),
        ("warnings", []),
    ]


def test_the_arm_of_a_clock_through_the_life_of_its_runs(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))

    def told(now):
        one = arm(conn, table, now=now)
        return one["last_consumed_window_at"], one["due_at"], one["due_now"], one["active_run"]

    first, second = "2026-07-25T09:00:00", "2026-07-25T10:00:00"
    assert told(NOW) == (None, first, True, False)
    created(conn)
    assert told(NOW) == (first, None, False, True)
    assert told(at("2026-07-25 10:30")) == (first, second, False, True)
    end_runs(conn, status="failed")
    assert told(at("2026-07-25 09:59")) == (first, None, False, False)
    assert told(at("2026-07-25 10:30")) == (first, second, True, False)


def test_a_stale_running_run_fences_until_it_is_swept(conn):
    table = insert_table(conn)
    save(conn, table, a_known())
    created(conn)
    conn.execute(
        "UPDATE trigger_run SET status = 'running', worker_id = 1, announce_at = NULL,"
        " next_attempt_at = NULL, leased_until = '2020-01-01Z', updated_at = '2020-01-01Z'"
    )

    assert arm(conn, table)["active_run"] is True


@pytest.mark.parametrize("schedule", [DATE, *CLOCKS])
def test_a_disabled_trigger_is_told_as_if_it_were_enabled(conn, schedule):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule), now=NOW - DAY)
    write(conn, table, OVERDUE)
    enabled = arm(conn, table)
    save(conn, table, a_known(schedule=schedule, enabled=False))

    assert arm(conn, table) == {**enabled, "warnings": ["trigger_disabled"]}
    assert enabled["due_now"] == 1


@pytest.mark.parametrize(
    ("schedule", "parts", "warnings"),
    [
        (
            INTERVAL,
            {"when": [{"column": "title", "op": "not_empty"}]},
            ["when_ignored_for_recordless_schedule"],
        ),
        (
            DAILY,
            {"when": [{"column": "title", "op": "not_empty"}], "enabled": False},
            ["trigger_disabled", "when_ignored_for_recordless_schedule"],
        ),
        (DATE, {"when": [{"column": "title", "op": "not_empty"}]}, []),
        (INTERVAL, {"when": []}, []),
        ({**CRON, "expression": "0 0 30 2 *"}, {}, ["cron_never_matches"]),
        ({**CRON, "expression": "0 0 29 2 *"}, {}, []),
    ],
)
def test_warnings(conn, schedule, parts, warnings):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=schedule, **parts))

    assert arm(conn, table)["warnings"] == warnings


def test_the_arm_of_a_broken_trigger_hides_no_healthy_one(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE), a_known(id=OTHER_ID))
    conn.execute(
        "UPDATE custom_table SET triggers = jsonb_set(triggers, '{0,schedule,type}', '\"monthly\"')"
    )

    broken, healthy = preview(conn, table, now=NOW).triggers

    assert list(broken.items()) == [
        ("kind", "invalid"),
        ("trigger_id", TRIGGER_ID),
        ("stored_schedule_type", "monthly"),
        ("config_status", "invalid"),
        ("error_codes", ["unsupported_schedule_type"]),
        ("warnings", []),
    ]
    assert (healthy["trigger_id"], healthy["due_now"]) == (OTHER_ID, True)


@pytest.mark.parametrize(
    ("schedule", "codes"),
    [
        (None, ["schedule_object_missing"]),
        ("daily", ["schedule_object_missing"]),
        ([], ["schedule_object_missing"]),
        ({}, ["unsupported_schedule_type"]),
        ({"type": 1}, ["unsupported_schedule_type"]),
        ({"type": "yearly"}, ["unsupported_schedule_type"]),
        ({**INTERVAL, "colour": "red"}, ["stored_schedule_invalid"]),
        ({"type": "date_column_reached"}, ["schedule_column_missing"]),
        ({**DATE, "column": "gone"}, ["schedule_column_missing"]),
        ({**DATE, "column": "title"}, ["schedule_column_wrong_type"]),
        ({**DATE, "offset_minutes": True}, ["offset_minutes_invalid"]),
        ({**DATE, "offset_minutes": 43201}, ["offset_minutes_invalid"]),
        ({"type": "interval", "every_seconds": 3600.0}, ["interval_seconds_invalid"]),
        ({"type": "interval"}, ["interval_seconds_invalid"]),
        ({"type": "daily", "at": "24:00"}, ["daily_time_invalid"]),
        ({"type": "daily", "at": "09:00", "timezone": "Mars/X"}, ["timezone_invalid"]),
        ({"type": "cron", "expression": "@daily"}, ["cron_expression_invalid"]),
        ({**CRON, "timezone": None}, ["timezone_invalid"]),
        (
            {"type": "cron", "expression": "x", "timezone": 1, "more": 1},
            ["cron_expression_invalid", "timezone_invalid", "stored_schedule_invalid"],
        ),
    ],
)
def test_the_codes_of_a_broken_schedule(conn, schedule, codes):
    table = insert_table(conn)
    insert_state(conn, table, trigger_id=TRIGGER_ID, kind="cron")

    told = _codes(conn, table, a_stored_trigger(id=TRIGGER_ID, schedule=schedule))

    assert sorted(told) == sorted(codes)


def test_the_type_of_a_broken_schedule_is_null_when_there_is_none(conn):
    table = insert_table(conn)
    _store(conn, table, a_stored_trigger(schedule={"type": 5}), a_stored_trigger(schedule=None))

    assert [one["stored_schedule_type"] for one in preview(conn, table).triggers] == [None, None]


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        (
            {"schedule": CRON, "when": [{"column": "title", "op": "not_empty"}]},
            ["cron_when_not_allowed"],
        ),
        (
            {"schedule": DATE, "when": [{"column": "x", "op": "eq", "value": 1}]},
            ["when_column_missing"],
        ),
        (
            {"schedule": DATE, "when": [{"column": "title", "op": "like"}]},
            ["when_predicate_invalid"],
        ),
        ({"schedule": DATE, "when": 1}, ["when_predicate_invalid"]),
        ({"schedule": DATE, "actions": []}, ["stored_schedule_invalid"]),
        ({"on": "sometimes"}, ["stored_schedule_invalid"]),
        (
            {
                "schedule": {**DATE, "column": "x", "offset_minutes": 0.5},
                "when": [{"column": "y", "op": "not_empty"}],
            },
            ["schedule_column_missing", "offset_minutes_invalid", "when_column_missing"],
        ),
    ],
)
def test_the_codes_of_other_faults(conn, parts, codes):
    table = insert_table(conn)
    stored = a_stored_trigger(**{key: value for key, value in parts.items() if key != "on"})
    stored |= {"on": parts.get("on", "schedule"), "schedule": parts.get("schedule", INTERVAL)}

    assert sorted(_codes(conn, table, stored)) == sorted(codes)


def test_ids_that_are_missing_or_doubled(conn):
    table = insert_table(conn)
    nameless = {"on": "schedule", "schedule": INTERVAL, "actions": [AN_ACTION]}
    twice = a_stored_trigger(id=TRIGGER_ID)
    _store(conn, table, nameless, twice, twice)

    told = preview(conn, table, now=NOW).triggers

    assert [(one["trigger_id"], one["error_codes"]) for one in told] == [
        (None, ["trigger_id_missing"]),
        (TRIGGER_ID, ["trigger_id_duplicate"]),
        (TRIGGER_ID, ["trigger_id_duplicate"]),
    ]


@pytest.mark.parametrize("state", ["none", "retired", "of another kind"])
def test_a_valid_trigger_without_its_state(conn, state):
    table = insert_table(conn)
    if state == "retired":
        insert_state(conn, table, trigger_id=TRIGGER_ID, kind="interval", retired_at=NOW)
    if state == "of another kind":
        insert_state(conn, table, trigger_id=TRIGGER_ID, kind="daily")

    codes = _codes(conn, table, a_stored_trigger(id=TRIGGER_ID, schedule=INTERVAL))

    assert codes == ["schedule_state_missing"]
    assert created(conn) == 0


@pytest.mark.parametrize("stored", [1, None, "x", [], {}, {"on": None}, {"on": "schedule"}])
def test_what_is_no_trigger_at_all_gets_an_arm(conn, stored):
    told = _codes(conn, insert_table(conn), stored)

    assert "trigger_id_missing" in told


@pytest.mark.parametrize("on", ["record_created", "record_updated", "record_deleted"])
def test_a_broken_trigger_on_an_event_gets_none(conn, on):
    table = insert_table(conn)
    _store(conn, table, {"on": on})

    assert preview(conn, table).triggers == []


def test_a_disabled_broken_trigger_says_both(conn):
    table = insert_table(conn)
    _store(conn, table, a_stored_trigger(schedule={"type": "x"}, enabled=False))

    assert arm(conn, table)["warnings"] == ["trigger_disabled"]


def test_a_column_of_when_that_went_is_no_fault_of_a_recordless_schedule(conn):
    table = insert_table(conn, columns=(*COLUMNS, Column(id="c9", name="gone", type="text")))
    when = [{"column": "gone", "op": "not_empty"}]
    save(conn, table, a_known(when=when), a_known(id=OTHER_ID, schedule=DATE, when=when))
    kept = [column.to_json() for column in COLUMNS]
    alter_table(conn, table.id, raw_columns=kept, now=NOW)

    recordless, dated = preview(conn, table, now=NOW).triggers

    assert recordless["config_status"] == "valid"
    assert dated["error_codes"] == ["when_column_missing"]


def test_an_unreadable_record_is_told_as_invalid(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE, when=[{"column": "amount", "op": "is_empty"}]))
    records = write(conn, table, *[OVERDUE] * 5)
    poison_cell(conn, records[3], "c3")

    told = arm(conn, table)

    assert _classes(told) == {"invalid_schedule_value": 1, "due_now": 4}
    assert (told["records_scanned"], told["unscanned"]) == (5, 0)
    assert created(conn) == 4


def test_it_writes_nothing(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE), *(a_trigger(schedule=one) for one in CLOCKS))
    write(conn, table, OVERDUE, AHEAD)
    before = _everything(conn)

    preview(conn, table, now=NOW + DAY)

    assert _everything(conn) == before
    assert conn.read_only is None


def _everything(conn):
    return [
        conn.execute("SELECT to_jsonb(one) FROM custom_table AS one").fetchall(),
        conn.execute("SELECT to_jsonb(one) FROM trigger_state AS one ORDER BY id").fetchall(),
        conn.execute("SELECT to_jsonb(one) FROM record AS one ORDER BY id").fetchall(),
        conn.execute("SELECT to_jsonb(one) FROM due_value AS one ORDER BY record_id").fetchall(),
        ledger(conn),
        runs(conn),
    ]


def test_it_waits_for_no_lock_and_sees_one_moment(conn, other_conn):
    table = save(conn, insert_table(conn), a_known(schedule=DATE))
    write(conn, table, OVERDUE)

    with other_conn.transaction():
        other_conn.execute("SELECT FROM custom_table FOR UPDATE")
        other_conn.execute("UPDATE record SET deleted_at = updated_at")

        seen = preview(conn, table, now=NOW)

    assert (seen.live_records, seen.triggers[0]["due_now"]) == (1, 1)


def test_no_record_id_and_no_cell_is_told(conn):
    table = save(conn, insert_table(conn), a_known(schedule=DATE))
    conn.execute("ALTER TABLE record ALTER COLUMN id RESTART WITH 777777")
    write(conn, table, {"c1": "secret", "c2": OVERDUE})

    seen = preview(conn, table, now=NOW)

    text = json.dumps(seen.triggers)
    assert "777777" not in text
    assert "secret" not in text
    assert OVERDUE not in text


def test_a_table_that_is_absent_or_trashed_is_not_found(conn):
    table = insert_table(conn)
    trash_table(conn, table.id, now=NOW)

    with pytest.raises(NotFound):
        preview(conn, table)
    with pytest.raises(NotFound):
        preview(conn, a_table(id=uuid4()))
    assert conn.read_only is None


def test_instants_are_cut_to_the_second(conn):
    table = insert_table(conn)
    save(conn, table, a_known(), now=NOW.replace(microsecond=900_000))

    assert arm(conn, table, now=NOW + MINUTE)["due_at"] == "2026-07-25T09:00:00"
    assert get_table(conn, table.id).created_at == LONG_AGO
