"""``when`` predicates: what may be saved, and what matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.columns import COLUMN_TYPES
from shared.domain.conditions import OPS, matches, read_when
from tests.builders import a_column
from tests.strategies import json_values

COLUMNS = tuple(
    a_column(id=f"c{n}", name=column_type, type=column_type, options=("a", "b"))
    for n, column_type in enumerate(COLUMN_TYPES)
)
IDS = {column.name: column.id for column in COLUMNS}
MISSING = object()


def predicate(column, op, value=MISSING):
    return {"column": column, "op": op} | ({} if value is MISSING else {"value": value})


def is_match(column, op, value, cell, *, before=None):
    predicates, faults = read_when([predicate(column, op, value)], COLUMNS, on="record_updated")
    assert faults == []
    data = {} if cell is MISSING else {IDS[column]: cell}
    return matches(predicates, data, before=before)


def faults_of(raw, *, on="record_updated"):
    _, faults = read_when(raw, COLUMNS, on=on)
    return [(fault.code.removeprefix("when_"), fault.pointer) for fault in faults]


@pytest.mark.parametrize(
    ("column", "op", "value", "cells"),
    [
        ("number", "eq", 1, [1, 1.0]),
        ("number", "eq", 2**63 - 1, [2**63 - 1]),
        ("number", "neq", 1, [2, 1.5, None, MISSING]),
        ("number", "gt", 1.5, [2, 10**22]),
        ("number", "gte", 2, [2, 2.0]),
        ("number", "lt", 0, [-1, -1e300]),
        ("number", "lte", 9, [9, 8.9]),
        ("number", "in", [1, 2.5], [1, 2.5, 1.0]),
        ("number", "not_in", [1], [2, None, MISSING]),
        ("number", "not_in", [], [1]),
        ("text", "eq", "", [""]),
        ("text", "gt", "Z", ["a", "é"]),
        ("text", "lt", "a", ["Z", "", "10"]),
        ("text", "contains", "ab", ["ab", "xaby"]),
        ("text", "contains", "", ["", "x"]),
        ("text", "not_contains", "ab", ["", "AB", None, MISSING]),
        ("select", "eq", "a", ["a"]),
        ("select", "in", ["a", "gone"], ["a", "gone"]),
        ("select", "neq", "a", ["b", None, MISSING]),
        ("select", "lt", "b", ["a"]),
        ("checkbox", "eq", False, [False]),
        ("checkbox", "neq", True, [False, None, MISSING]),
        ("checkbox", "in", [True], [True]),
        ("date", "eq", "2026-07-25", ["2026-07-25", " 2026-07-25T23:59:59+08:00 "]),
        ("date", "lt", "2026-07-25", ["2026-07-24 23:59", "0001-01-01"]),
        ("datetime", "eq", "2026-07-25 09:00", ["2026-07-25T09:00:59.9Z", "2026-07-25 09:00+08"]),
        ("datetime", "gte", "2026-07-25", ["2026-07-25", "2026-07-25 00:00"]),
        ("datetime", "neq", "2026-07-25", ["2026-07-26", None, MISSING, "", " "]),
        ("datetime", "in", ["2026-07-25T00:00Z"], ["2026-07-25"]),
        ("json", "eq", {"a": [1, True]}, [{"a": [1.0, True]}]),
        ("json", "neq", 1, [True, "1", [1], None, MISSING]),
        ("json", "contains", 1, [[2, 1.0]]),
        ("json", "contains", "b", [["a", "b"], "abc"]),
        ("json", "contains", {"x": 1}, [[{"x": 1}]]),
        ("json", "not_contains", 1, [[], [True], [[1]], None, MISSING]),
        ("text", "is_empty", MISSING, [None, MISSING, "", " \t"]),
        ("text", "not_empty", MISSING, ["x"]),
        ("number", "not_empty", MISSING, [0]),
        ("checkbox", "not_empty", MISSING, [False]),
        ("json", "is_empty", MISSING, [[], {}, None, ""]),
        ("json", "not_empty", MISSING, [[None], 0, False]),
        ("date", "not_empty", MISSING, ["not a date"]),
    ],
)
def test_it_matches(column, op, value, cells):
    assert [is_match(column, op, value, cell) for cell in cells] == [True] * len(cells)


@pytest.mark.parametrize(
    ("column", "op", "value", "cells"),
    [
        ("number", "eq", 1, [2, True, "1", None, MISSING]),
        ("number", "neq", 1, [1, 1.0, True, "2", [3]]),
        ("number", "gt", 1, [1, True, "2", None, MISSING]),
        ("number", "in", [1], [True, "1", None, MISSING]),
        ("number", "in", [], [1, None]),
        ("number", "not_in", [1], [1, True, "2"]),
        ("text", "eq", "a", ["A", " a", 1, None, MISSING]),
        ("text", "neq", "1", [1, "1"]),
        ("text", "gt", "a", ["a", None, MISSING]),
        ("text", "contains", "a", ["A", "", None, MISSING, ["a"]]),
        ("text", "not_contains", "a", ["a", ["b"], 1]),
        ("checkbox", "eq", True, [1, "true", None, MISSING]),
        ("checkbox", "neq", True, [0, "false", True]),
        ("date", "eq", "2026-07-25", ["2026-7-25", "nonsense", None, 1]),
        ("date", "neq", "2026-07-25", ["nonsense", "2026-02-30", 1, ["x"]]),
        ("date", "lt", "2026-07-25", ["", " ", None, MISSING, "2026-07-25"]),
        ("json", "eq", 1, [True, "1", [1]]),
        ("json", "eq", [0], [[False], [0, 0]]),
        ("json", "contains", 1, [[True], {"a": 1}, 1, "1", None, MISSING]),
        ("json", "not_contains", 1, [[1], {"a": 1}, "2"]),
        ("text", "is_empty", MISSING, ["x", "0"]),
        ("json", "is_empty", MISSING, [0, False, [None]]),
    ],
)
def test_it_does_not_match(column, op, value, cells):
    assert [is_match(column, op, value, cell) for cell in cells] == [False] * len(cells)


@pytest.mark.parametrize(
    ("cell", "before", "changed"),
    [
        (1, 2, True),
        (1, 1.0, False),
        (1, True, True),
        (None, MISSING, False),
        (MISSING, None, False),
        (None, "", True),
        ([1], [True], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
    ],
)
def test_changed_compares_with_the_row_before(cell, before, changed):
    row = {} if before is MISSING else {IDS["json"]: before}

    assert is_match("json", "changed", MISSING, cell, before=row) is changed


def test_changed_is_true_where_nothing_is_known_of_before():
    assert is_match("text", "changed", MISSING, "x")


def test_all_predicates_must_match():
    raw = [predicate("number", "gt", 1), predicate("text", "eq", "a")]
    predicates, _ = read_when(raw, COLUMNS, on="schedule")

    assert matches(predicates, {IDS["number"]: 2, IDS["text"]: "a"})
    assert not matches(predicates, {IDS["number"]: 2, IDS["text"]: "b"})
    assert matches((), {})


@pytest.mark.parametrize(
    ("raw", "faults"),
    [
        (None, [("predicate_invalid", "/when")]),
        ({}, [("predicate_invalid", "/when")]),
        ([predicate("text", "is_empty")] * 101, [("predicate_invalid", "/when")]),
        (["x"], [("predicate_invalid", "/when/0")]),
        ([{}], [("predicate_invalid", "/when/0/column"), ("predicate_invalid", "/when/0/op")]),
        ([predicate("gone", "eq", 1)], [("column_missing", "/when/0/column")]),
        (
            [predicate("gone", "like", 1)],
            [("column_missing", "/when/0/column"), ("predicate_invalid", "/when/0/op")],
        ),
        ([predicate(["text"], "eq", 1)], [("predicate_invalid", "/when/0/column")]),
        ([predicate("text", ["eq"], 1)], [("predicate_invalid", "/when/0/op")]),
        ([predicate("text", "EQ", "a")], [("predicate_invalid", "/when/0/op")]),
        ([predicate("text", "eq", "a") | {"x": 1}], [("predicate_invalid", "/when/0/x")]),
        ([predicate("text", "eq")], [("predicate_invalid", "/when/0/value")]),
        ([predicate("text", "eq", None)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("text", "eq", 1)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("number", "eq", True)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("number", "eq", "1")], [("predicate_invalid", "/when/0/value")]),
        ([predicate("checkbox", "eq", 1)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("checkbox", "gt", True)], [("predicate_invalid", "/when/0/op")]),
        ([predicate("date", "lt", "soon")], [("predicate_invalid", "/when/0/value")]),
        ([predicate("date", "contains", "2026")], [("predicate_invalid", "/when/0/op")]),
        ([predicate("number", "contains", 1)], [("predicate_invalid", "/when/0/op")]),
        ([predicate("json", "lt", 1)], [("predicate_invalid", "/when/0/op")]),
        ([predicate("json", "eq", None)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("text", "in", "abc")], [("predicate_invalid", "/when/0/value")]),
        ([predicate("text", "in", ["a", 1])], [("predicate_invalid", "/when/0/value")]),
        ([predicate("number", "in", [1] * 1001)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("text", "is_empty", None)], [("predicate_invalid", "/when/0/value")]),
        ([predicate("text", "changed", True)], [("predicate_invalid", "/when/0/value")]),
    ],
)
def test_predicates_are_refused(raw, faults):
    assert faults_of(raw) == faults


@pytest.mark.parametrize("on", ["schedule", "record_created", "record_deleted", None])
def test_changed_is_for_record_updated_only(on):
    assert faults_of([predicate("text", "changed")], on=on) == [("predicate_invalid", "/when/0/op")]


def test_no_predicates_are_no_fault():
    assert read_when([], COLUMNS, on="schedule") == ((), [])


@given(json_values)
def test_reading_is_total(raw):
    _, faults = read_when(raw, COLUMNS, on="schedule")

    assert (faults == []) == (raw == [])


names = st.sampled_from([*IDS, "gone"])


@given(names, st.sampled_from(OPS), json_values, json_values, json_values)
def test_what_was_read_matches_any_cell_or_not_but_never_raises(name, op, value, cell, before):
    predicates, faults = read_when([predicate(name, op, value)], COLUMNS, on="record_updated")

    data = {column_id: cell for column_id in IDS.values()}
    earlier = {column_id: before for column_id in IDS.values()}

    assert matches(predicates, data, before=earlier) in ((True,) if faults else (True, False))


@given(names.filter(lambda name: name != "gone"), json_values, json_values)
def test_eq_and_neq_never_both_match(name, value, cell):
    pair = [predicate(name, "eq", value), predicate(name, "neq", value)]
    predicates, faults = read_when(pair, COLUMNS, on=None)

    if not faults:
        assert not matches(predicates, {IDS[name]: cell})


@given(names.filter(lambda name: name != "gone"), st.lists(json_values, max_size=5), json_values)
def test_in_matches_what_eq_matches_for_one_of_the_values(name, values, cell):
    raw = [predicate(name, "in", values), *(predicate(name, "eq", value) for value in values)]
    predicates, faults = read_when(raw, COLUMNS, on=None)

    if not faults:
        found, *singly = (matches([one], {IDS[name]: cell}) for one in predicates)
        assert found == any(singly)


class Counted(list):
    """A list that knows how often it was gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_a_cell_is_gone_through_once_however_many_predicates_ask():
    raw = [predicate("json", "not_contains", number) for number in range(100)]
    predicates, _ = read_when(raw, COLUMNS, on=None)
    cell = Counted([-1, -2])

    assert matches(predicates, {IDS["json"]: cell})
    assert cell.times == 1
