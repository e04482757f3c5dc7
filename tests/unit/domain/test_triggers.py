"""The one reader of authored and stored triggers."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.triggers import ERROR_CODES, read_trigger, read_triggers, stored_form
from shared.schedule.model import Cron, DateColumnReached
from tests.builders import (
    AN_ACTION,
    COLUMNS,
    SCHEDULES,
    TRIGGER_ID,
    a_column,
    a_stored_trigger,
    a_trigger,
)
from tests.strategies import json_values


def faults(raw, *, columns=COLUMNS, stored=False):
    return [(f.code, f.pointer) for f in read_trigger(raw, columns, stored=stored).faults]


def messages(raw, *, columns=COLUMNS):
    return [fault.message for fault in read_trigger(raw, columns).faults]


def codes(raw, *, columns=COLUMNS):
    """The codes that preview tells of a stored trigger."""
    return read_trigger(raw, columns, stored=True).error_codes


def on_date(**parts):
    return a_trigger(schedule=SCHEDULES["date_column_reached"] | parts)


def test_a_date_trigger_is_read():
    when = [{"column": "status", "op": "neq", "value": "done"}]
    raw = a_trigger(
        name="到期提醒",
        schedule={"type": "date_column_reached", "column": "due", "offset_minutes": -1440},
        when=when,
    )

    trigger = read_trigger(raw, COLUMNS).trigger

    assert trigger.id is None
    assert trigger.name == "到期提醒"
    assert trigger.enabled is True
    assert trigger.kind == "date_column_reached"
    assert trigger.schedule == DateColumnReached(column="due", offset_minutes=-1440)
    assert trigger.date_column == COLUMNS[0]
    assert [predicate.op for predicate in trigger.when] == ["neq"]
    assert trigger.actions == (AN_ACTION,)


@pytest.mark.parametrize("event", ["record_created", "record_updated", "record_deleted"])
def test_an_event_trigger_is_read(event):
    trigger = read_trigger(a_trigger(on=event, enabled=False), COLUMNS).trigger

    assert (trigger.on, trigger.kind, trigger.enabled) == (event, event, False)
    assert trigger.schedule is None
    assert trigger.date_column is None


def test_a_clock_trigger_is_read():
    trigger = read_trigger(a_trigger(schedule=SCHEDULES["cron"]), COLUMNS).trigger

    assert isinstance(trigger.schedule, Cron)
    assert trigger.kind == "cron"


def test_the_save_gives_an_id():
    trigger = read_trigger(a_trigger(), COLUMNS).trigger.identified_as(TRIGGER_ID)

    assert trigger.id == TRIGGER_ID
    assert trigger.raw["id"] == TRIGGER_ID
    assert read_trigger(trigger.raw, COLUMNS, stored=True).trigger == trigger


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (a_trigger(id=None), [("trigger_invalid", "/id")]),
        (a_trigger(id="trg_00000000000C"), [("trigger_invalid", "/id")]),
        (a_trigger(id="trg_00000000000c\n"), [("trigger_invalid", "/id")]),
        (a_trigger(id="trg_000000000000c"), [("trigger_invalid", "/id")]),
        (a_trigger(name=None), [("trigger_invalid", "/name")]),
        (a_trigger(name="x" * 201), [("trigger_invalid", "/name")]),
        (a_trigger(enabled=1), [("trigger_invalid", "/enabled")]),
        (a_trigger(enabled=None), [("trigger_invalid", "/enabled")]),
        (a_trigger(extra=1), [("trigger_invalid", "/extra")]),
        (a_trigger(**{"on_": "schedule"}), [("trigger_invalid", "/on_")]),
        (
            {"on": "record_created", "schedule": SCHEDULES["interval"], "actions": [AN_ACTION]},
            [("trigger_invalid", "/schedule")],
        ),
        ({"on": "schedule", "actions": [AN_ACTION]}, [("schedule_object_missing", "/schedule")]),
        (a_trigger(schedule=None), [("schedule_object_missing", "/schedule")]),
        (a_trigger(schedule=[]), [("schedule_object_missing", "/schedule")]),
        (a_trigger(when=None), [("when_predicate_invalid", "/when")]),
        (a_trigger(when={}), [("when_predicate_invalid", "/when")]),
        (a_trigger(actions=None), [("trigger_invalid", "/actions")]),
        (a_trigger(actions=[]), [("trigger_invalid", "/actions")]),
        (a_trigger(actions=[AN_ACTION] * 21), [("trigger_invalid", "/actions")]),
        (a_trigger(actions=["notify"]), [("trigger_invalid", "/actions/0")]),
        (a_trigger(actions=[AN_ACTION, {}]), [("trigger_invalid", "/actions/1/type")]),
        (a_trigger(actions=[{"type": 1}]), [("trigger_invalid", "/actions/0/type")]),
        (
            a_trigger(actions=[AN_ACTION | {"on_error": "ignore"}]),
            [("trigger_invalid", "/actions/0/on_error")],
        ),
        (
            a_trigger(actions=[AN_ACTION | {"on_unknown": ["fail"]}]),
            [("trigger_invalid", "/actions/0/on_unknown")],
        ),
        ("trigger", [("trigger_invalid", "")]),
        (None, [("trigger_invalid", "")]),
    ],
)
def test_a_trigger_is_refused(raw, found):
    assert faults(raw) == found


@pytest.mark.parametrize("on", [None, "", "Schedule", "record_saved", ["schedule"], 1])
def test_another_event_is_refused(on):
    assert ("trigger_invalid", "/on") in faults({"on": on, "actions": [AN_ACTION]})


def test_all_faults_are_told_in_document_order():
    raw = {
        "actions": [{"type": "webhook", "on_error": 1}],
        "schedule": {"column": "amount", "type": "date_column_reached", "offset_minutes": True},
        "when": [{"column": "gone", "op": "eq", "value": 1}],
        "on": "schedule",
        "more": 1,
    }

    assert faults(raw) == [
        ("trigger_invalid", "/actions/0/on_error"),
        ("schedule_column_wrong_type", "/schedule/column"),
        ("offset_minutes_invalid", "/schedule/offset_minutes"),
        ("when_column_missing", "/when/0/column"),
        ("trigger_invalid", "/more"),
    ]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            a_trigger(schedule={"type": "monthly"}),
            "invalid schedule type 'monthly'. valid types: date_column_reached, interval, daily, "
            "cron",
        ),
        (
            on_date(offset_minutes=True),
            "date_column_reached offset_minutes must be an integer in [-43200, 43200] (negative = "
            "before the column instant, positive = after)",
        ),
        (
            a_trigger(
                schedule=SCHEDULES["cron"],
                when=[{"column": "status", "op": "is_empty"}],
            ),
            "cron_when_not_allowed: cron schedules are recordless and take no when predicates",
        ),
    ],
)
def test_the_messages_of_the_contract(raw, message):
    assert messages(raw) == [message]


@pytest.mark.parametrize("when", [[{"column": "gone", "op": "?"}], [1], [None]])
def test_cron_takes_no_predicates_of_any_form(when):
    raw = a_trigger(schedule=SCHEDULES["cron"], when=when)

    assert faults(raw) == [("cron_when_not_allowed", "/when")]
    assert codes(raw | {"id": TRIGGER_ID}) == ["cron_when_not_allowed"]


def test_no_predicates_are_fine_for_cron():
    assert faults(a_trigger(schedule=SCHEDULES["cron"], when=[])) == []


@pytest.mark.parametrize("kind", ["interval", "daily"])
def test_predicates_of_a_clock_schedule_are_checked_at_save_and_never_read(kind):
    valid = [{"column": "status", "op": "eq", "value": "x"}]
    broken = [{"column": "gone", "op": "eq", "value": "x"}]

    trigger = read_trigger(a_trigger(schedule=SCHEDULES[kind], when=valid), COLUMNS).trigger
    assert trigger.when == ()
    assert trigger.raw["when"] == valid
    assert faults(a_trigger(schedule=SCHEDULES[kind], when=broken)) == [
        ("when_column_missing", "/when/0/column")
    ]
    stored = a_stored_trigger(schedule=SCHEDULES[kind], when=broken)
    assert read_trigger(stored, COLUMNS, stored=True).trigger.when == ()


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"schedule": 1}, "schedule_object_missing"),
        ({"schedule": {}}, "unsupported_schedule_type"),
        ({"schedule": {"type": None}}, "unsupported_schedule_type"),
        ({"schedule": {"type": "monthly"}}, "unsupported_schedule_type"),
        ({"schedule": {"type": "date_column_reached"}}, "schedule_column_missing"),
        ({"schedule": {"type": "date_column_reached", "column": 1}}, "schedule_column_missing"),
        (
            {"schedule": {"type": "date_column_reached", "column": "gone"}},
            "schedule_column_missing",
        ),
        (
            {"schedule": {"type": "date_column_reached", "column": "status"}},
            "schedule_column_wrong_type",
        ),
        (
            {"schedule": SCHEDULES["date_column_reached"] | {"offset_minutes": False}},
            "offset_minutes_invalid",
        ),
        ({"schedule": {"type": "interval", "every_seconds": 1}}, "interval_seconds_invalid"),
        ({"schedule": {"type": "daily", "at": "9:00"}}, "daily_time_invalid"),
        ({"schedule": {"type": "daily", "at": "09:00", "timezone": 1}}, "timezone_invalid"),
        ({"schedule": SCHEDULES["cron"] | {"timezone": "Mars"}}, "timezone_invalid"),
        ({"schedule": {"type": "cron", "expression": "@daily"}}, "cron_expression_invalid"),
        ({"schedule": SCHEDULES["interval"] | {"at": 1}}, "stored_schedule_invalid"),
        ({"unknown": 1}, "stored_schedule_invalid"),
        ({"actions": []}, "stored_schedule_invalid"),
        ({"id": "x"}, "stored_schedule_invalid"),
        (
            {
                "schedule": SCHEDULES["date_column_reached"],
                "when": [{"column": "gone", "op": "is_empty"}],
            },
            "when_column_missing",
        ),
        (
            {
                "schedule": SCHEDULES["date_column_reached"],
                "when": [{"column": "status", "op": "changed"}],
            },
            "when_predicate_invalid",
        ),
    ],
)
def test_preview_tells_what_is_wrong_with_a_stored_trigger(parts, code):
    assert codes(a_stored_trigger(**parts)) == [code]


def test_preview_tells_every_fault_once():
    raw = a_stored_trigger(
        schedule={"type": "date_column_reached", "column": "gone", "offset_minutes": "1", "x": 1},
        when=[{"column": "gone", "op": "is_empty"}, {"column": "gone", "op": "not_empty"}, {}],
        actions=[],
    )

    assert codes(raw) == [
        "schedule_column_missing",
        "offset_minutes_invalid",
        "stored_schedule_invalid",
        "when_column_missing",
        "when_predicate_invalid",
    ]


def test_a_stored_trigger_needs_an_id_and_an_authored_one_does_not():
    assert read_trigger(a_trigger(), COLUMNS).faults == ()
    assert codes(a_trigger()) == ["trigger_id_missing"]
    assert codes(None) == ["trigger_id_missing", "stored_schedule_invalid"]


@pytest.mark.parametrize("trigger_id", [None, 5, []])
def test_a_stored_id_that_is_no_text_is_missing(trigger_id):
    assert codes(a_stored_trigger(id=trigger_id)) == ["trigger_id_missing"]
    assert [fault.code for fault in read_trigger(a_trigger(id=trigger_id), COLUMNS).faults] == [
        "trigger_invalid"
    ]


def test_what_is_known_of_a_broken_trigger():
    read = read_trigger({"id": "trg_x", "schedule": {"type": "monthly"}}, COLUMNS, stored=True)

    assert (read.trigger_id, read.schedule_type, read.is_schedule) == ("trg_x", "monthly", True)


@pytest.mark.parametrize(
    ("raw", "is_schedule"),
    [
        ({}, True),
        (1, True),
        ({"on": "schedule"}, True),
        ({"on": "record_created"}, False),
        ({"on": "record_deleted", "schedule": 1}, False),
        ({"on": "later"}, True),
    ],
)
def test_all_but_event_triggers_count_as_scheduled(raw, is_schedule):
    read = read_trigger(raw, COLUMNS, stored=True)

    assert read.is_schedule is is_schedule
    assert read.schedule_type is None
    assert read.trigger_id is None


def test_an_id_that_stands_twice_faults_both():
    one, other, third = read_triggers(
        [
            a_trigger(id=TRIGGER_ID),
            a_trigger(id=TRIGGER_ID, actions=[]),
            a_trigger(id="trg_000000000001"),
        ],
        COLUMNS,
    )

    assert one.trigger is None
    assert one.error_codes == ["trigger_id_duplicate"]
    assert [fault.code for fault in other.faults] == ["trigger_invalid", "trigger_id_duplicate"]
    assert other.error_codes == ["stored_schedule_invalid", "trigger_id_duplicate"]
    assert third.faults == ()


def test_entries_without_id_are_no_duplicates():
    assert [read.faults for read in read_triggers([a_trigger(), a_trigger()], COLUMNS)] == [(), ()]


def test_a_broken_trigger_does_not_hide_a_healthy_one():
    reads = read_triggers([None, a_stored_trigger()], COLUMNS, stored=True)

    assert [read.trigger is None for read in reads] == [True, False]


@pytest.mark.parametrize("raw", [None, {}, "x", 1])
def test_a_list_that_is_none_is_one_broken_trigger(raw):
    (read,) = read_triggers(raw, COLUMNS, stored=True)

    assert read.error_codes == ["stored_schedule_invalid"]


def test_the_stored_form_writes_the_defaults_of_the_trigger_and_drops_those_of_the_schedule():
    raw = on_date(offset_minutes=0)

    assert stored_form(raw) == {
        "name": "",
        "enabled": True,
        "on": "schedule",
        "schedule": {"type": "date_column_reached", "column": "due"},
        "when": [],
        "actions": [AN_ACTION],
    }


def test_the_stored_form_keeps_what_was_authored():
    raw = a_stored_trigger(
        name="x",
        enabled=False,
        schedule={"type": "cron", "expression": "0  9 * * 1-5,6", "timezone": "Asia/Taipei"},
    )

    assert stored_form(raw) == raw | {
        "schedule": {"type": "cron", "expression": "0 9 * * 1-5,6", "timezone": "Asia/Taipei"}
    }


predicates = st.fixed_dictionaries(
    {"column": st.sampled_from(["status", "amount", "gone"]) | json_values},
    optional={
        "op": st.sampled_from(["eq", "neq", "is_empty", "in", "changed"]) | json_values,
        "value": json_values,
    },
)
schedules = st.fixed_dictionaries(
    {"type": st.sampled_from([*SCHEDULES, "monthly"])},
    optional={
        "column": st.sampled_from(["due", "day", "amount", "gone"]) | json_values,
        "offset_minutes": st.sampled_from([0, 0.0, False, None, -60, 43201]),
        "every_seconds": st.sampled_from([60, 59, 3600, True, "60"]),
        "at": st.sampled_from(["00:00", "24:00", None]),
        "expression": st.sampled_from(["* * * * *", " 0  0 29 2 * ", "0 0 * *", 5]),
        "timezone": st.sampled_from(["UTC", "Asia/Taipei", "utc", "", None]),
    },
)
triggers = st.fixed_dictionaries(
    {"on": st.sampled_from(["schedule", "record_updated", "never"])},
    optional={
        "id": st.sampled_from([TRIGGER_ID, "x", None]),
        "name": st.text(max_size=3) | st.integers(),
        "enabled": st.booleans() | st.integers(),
        "schedule": schedules | json_values,
        "when": st.lists(predicates, max_size=2) | json_values,
        "actions": st.lists(st.just(AN_ACTION), max_size=2) | json_values,
        "x": json_values,
    },
)


@given(json_values | triggers, st.booleans())
def test_reading_is_total_and_a_trigger_is_valid_or_has_faults(raw, stored):
    before = copy.deepcopy(raw)

    read = read_trigger(raw, COLUMNS, stored=stored)

    assert (read.trigger is None) == (read.faults != ())
    assert raw == before
    assert set(read.error_codes) <= set(ERROR_CODES)


@given(triggers)
def test_what_is_accepted_comes_back_unchanged_from_its_stored_form(raw):
    trigger = read_trigger(raw, COLUMNS).trigger
    if trigger is None:
        return

    stored = trigger.identified_as(TRIGGER_ID)

    assert stored_form(stored.raw) == stored.raw
    assert read_trigger(stored.raw, COLUMNS, stored=True).trigger == stored


def test_a_column_that_changes_its_type_breaks_the_trigger():
    raw = a_stored_trigger(schedule=SCHEDULES["date_column_reached"])

    assert codes(raw, columns=(a_column(name="due", type="text"),)) == [
        "schedule_column_wrong_type"
    ]
    assert codes(raw, columns=()) == ["schedule_column_missing"]
