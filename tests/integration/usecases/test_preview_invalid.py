"""The preview's arm of a broken stored trigger: its codes, and who it hides (spec 1 §8)."""

import pytest
from psycopg.types.json import Jsonb

from shared.domain.columns import Column
from shared.usecases.manage_tables import alter_table
from shared.usecases.preview import preview
from tests.builders import AN_ACTION, a_stored_trigger
from tests.builders_db import COLUMNS, NOW, insert_state, insert_table
from tests.integration.usecases.world import (
    CRON,
    DATE,
    INTERVAL,
    OTHER_ID,
    TRIGGER_ID,
    a_known,
    arm,
    created,
    save,
)

CLASSES = (
    "already_fired",
    "missing_schedule_value",
    "invalid_schedule_value",
    "scheduled_for_future",
    "when_filter_mismatch",
    "due_now",
)


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
