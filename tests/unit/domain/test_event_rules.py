"""Conditions of rules: which are read, and when they hold."""

import json

import pytest
from hypothesis import given

from shared.domain.conditions import MAX_PREDICATES, MAX_VALUES
from shared.domain.event_rules import MAX_CONDITIONS_TEXT, MAX_KEY, holds, read_conditions
from shared.domain.faults import MAX_TOLD
from tests.builders import a_line_user
from tests.strategies import json_values

EVENT = {
    "total": 5,
    "name": "Ann",
    "paid": True,
    "tags": ["new", 1],
    "address": {"city": "台北"},
    "nothing": None,
    "a.b": 1,
    "no list": [],
}
CONTACT = a_line_user(
    id=7, external_id="U1", display_name=None, attributes={"tier": "gold", "points": 12.5}
)


def condition(column, op, *value):
    return {"column": column, "op": op} | ({"value": value[0]} if value else {})


def held(*conditions, event=EVENT, line_user=CONTACT):
    predicates, faults = read_conditions(list(conditions))
    assert faults == []
    return holds(predicates, event=event, line_user=line_user)


def told(*conditions):
    _, faults = read_conditions(list(conditions))
    return [(fault.code, fault.pointer, fault.message) for fault in faults]


@pytest.mark.parametrize(
    "true",
    [
        condition("event.total", "eq", 5.0),
        condition("event.total", "gt", 4),
        condition("event.total", "lte", 5),
        condition("event.total", "in", [1, 5]),
        condition("event.total", "neq", 6),
        condition("event.name", "eq", "Ann"),
        condition("event.name", "lt", "Anna"),
        condition("event.name", "contains", "nn"),
        condition("event.name", "not_in", ["Bo", "Cy"]),
        condition("event.paid", "eq", True),
        condition("event.paid", "neq", False),
        condition("event.paid", "in", [True, False]),
        condition("event.tags", "contains", "new"),
        condition("event.tags", "contains", 1),
        condition("event.tags", "not_contains", True),
        condition("event.tags", "eq", ["new", 1]),
        condition("event.address", "eq", {"city": "台北"}),
        condition("event.name", "in", ["Ann", 5]),
        condition("event.nothing", "is_empty"),
        condition("event.no list", "is_empty"),
        condition("event.unheard", "is_empty"),
        condition("event.unheard", "neq", 1),
        condition("event.unheard", "not_in", []),
        condition("event.total", "not_empty"),
        condition("event.a.b", "eq", 1),
        condition("line_user.tier", "eq", "gold"),
        condition("line_user.points", "gte", 12.5),
        condition("line_user.id", "eq", 7),
        condition("line_user.external_id", "in", ["U1"]),
        condition("line_user.display_name", "is_empty"),
    ],
    ids=str,
)
def test_it_holds(true):
    assert held(true)


@pytest.mark.parametrize(
    "false",
    [
        condition("event.total", "eq", 6),
        condition("event.total", "eq", "5"),
        condition("event.total", "neq", "5"),
        condition("event.total", "gt", "4"),
        condition("event.total", "contains", 5),
        condition("event.paid", "eq", 1),
        condition("event.tags", "contains", "ne"),
        condition("event.unheard", "eq", 1),
        condition("event.unheard", "contains", 1),
        condition("event.name", "is_empty"),
        condition("event.name", "in", []),
        condition("event.name", "lt", "Ann"),
        condition("line_user.tier", "eq", "silver"),
        condition("line_user.total", "eq", 5),
        condition("event.tier", "eq", "gold"),
    ],
    ids=str,
)
def test_it_does_not_hold(false):
    assert not held(false)


def test_all_of_them_must_hold():
    true, false = condition("event.total", "eq", 5), condition("line_user.tier", "eq", "tin")

    assert held()
    assert held(true, true)
    assert not held(true, false)


def test_one_key_may_be_compared_as_two_types():
    conditions = condition("event.total", "gte", 5), condition("event.total", "in", [5, "five"])

    assert held(*conditions)
    assert held(condition("event.total", "in", [5, "five"]), event={"total": "five"})


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (condition("line_user.tier", "eq", "gold"), False),
        (condition("line_user.id", "not_empty"), False),
        (condition("line_user.tier", "neq", "gold"), True),
        (condition("line_user.tier", "is_empty"), True),
        (condition("event.total", "eq", 5), True),
    ],
    ids=str,
)
def test_without_a_contact_its_attributes_are_missing(asked, answer):
    assert held(asked, line_user=None) is answer


SUBJECT = "a condition's column must be event.<key> or line_user.<attribute>"


@pytest.mark.parametrize(
    "name",
    [
        "total",
        "event",
        "event.",
        "line_user",
        "line_user.",
        "row.total",
        "Event.total",
        "",
        "event." + "k" * (MAX_KEY + 1),
    ],
)
def test_a_condition_is_about_the_event_or_its_contact(name):
    assert told(condition(name, "eq", 1)) == [
        ("when_column_missing", "/conditions/0/column", SUBJECT)
    ]


def test_the_longest_key_is_taken():
    assert held(condition("event." + "k" * MAX_KEY, "is_empty"))


@pytest.mark.parametrize(
    ("wrong", "pointer", "message"),
    [
        ("x", "", "a predicate must be an object {column, op, value?}"),
        ({"op": "is_empty"}, "/column", "a predicate must name a column"),
        (
            condition("event.total", "changed"),
            "/op",
            "the op changed is for record_updated triggers only",
        ),
        (
            condition("event.total", "gt", True),
            "/op",
            "the op gt does not apply to a checkbox column",
        ),
        (condition("event.total", "lt", [1]), "/op", "the op lt does not apply to a json column"),
        (
            condition("event.total", "in", 5),
            "/value",
            f"the op in takes a list of at most {MAX_VALUES} values",
        ),
        (
            condition("event.total", "eq", None),
            "/value",
            "the op eq on the json column 'event.total' takes a JSON value other than null",
        ),
        (condition("event.total", "is_empty", 1), "/value", "the op is_empty takes no value"),
        (
            {**condition("event.total", "eq", 1), "or": 1},
            "/or",
            "unknown key 'or' in a predicate. keys: column, op, value",
        ),
    ],
    ids=str,
)
def test_a_condition_is_refused(wrong, pointer, message):
    fine = condition("event.total", "eq", 1)

    assert told(fine, wrong) == [("when_predicate_invalid", f"/conditions/1{pointer}", message)]


def test_conditions_have_a_size_together():
    room = MAX_CONDITIONS_TEXT - len(json.dumps([condition("event.name", "eq", "")]))

    assert told(condition("event.name", "eq", "案" * room)) == []
    assert told(condition("event.name", "eq", "案" * (room + 1))) == [
        (
            "when_predicate_invalid",
            "/conditions",
            "conditions have at most 32768 characters together",
        )
    ]


@pytest.mark.parametrize("raw", [None, {}, "x", [{}] * (MAX_PREDICATES + 1)], ids=str)
def test_conditions_are_a_bounded_list(raw):
    predicates, [fault] = read_conditions(raw, "/when")

    assert predicates == ()
    assert fault.code == "when_predicate_invalid"
    assert fault.pointer == "/when"
    assert fault.message == f"conditions must be a list of at most {MAX_PREDICATES} predicates"


def test_not_all_of_very_many_faults_are_told():
    _, faults = read_conditions([dict.fromkeys(map(str, range(7)))] * MAX_PREDICATES)

    assert MAX_TOLD <= len(faults) <= MAX_TOLD + 10


@given(json_values, json_values)
def test_any_value_is_judged(raw, value):
    read_conditions(raw)
    read_conditions([raw, {"column": raw, "op": raw, "value": raw}])
    for op in ("eq", "gt", "in", "contains"):
        predicates, _ = read_conditions([condition("event.x", op, raw)])
        holds(predicates, event={"x": value}, line_user=None)
