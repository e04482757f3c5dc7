"""The schedule preview: exact arms, classes and warnings; read only (spec 1 §8)."""

import json
from uuid import uuid4

import pytest

from shared.db.clock import server_now
from shared.errors import NotFound
from shared.queries.custom_tables import get_table
from shared.usecases.manage_tables import trash_table
from shared.usecases.preview import preview
from tests.builders import a_table, a_trigger
from tests.builders_db import LONG_AGO, NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    CRON,
    DAILY,
    DATE,
    DAY,
    INTERVAL,
    MINUTE,
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


def test_an_unreadable_record_is_told_as_invalid(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE, when=[{"column": "amount", "op": "is_empty"}]))
    records = write(conn, table, *[OVERDUE] * 5)
    poison_cell(conn, records[3], "c3")

    told = arm(conn, table)

    assert _classes(told) == {"invalid_schedule_value": 1, "due_now": 4}
    assert (told["records_scanned"], told["unscanned"]) == (5, 0)
    assert created(conn) == 4


def test_a_page_that_is_read_in_portions_counts_and_fires_as_one(conn, monkeypatch):
    monkeypatch.setattr("shared.usecases.fire_dates._ROWS_AT_ONCE", 2)
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE, when=[{"column": "amount", "op": "is_empty"}]))
    records = write(conn, table, OVERDUE, AHEAD, *[OVERDUE] * 5)
    poison_cell(conn, records[3], "c3")

    told = arm(conn, table)

    assert _classes(told) == {
        "invalid_schedule_value": 1,
        "scheduled_for_future": 1,
        "due_now": 5,
    }
    assert told["records_scanned"] == 7
    assert created(conn) == 5


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
