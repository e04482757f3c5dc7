"""Columns as authors write them, and the cells that they take."""

import json

import pytest

from shared.domain.columns import (
    MAX_RECORD,
    Column,
    cell_fault,
    cells_by_name,
    column_from_json,
    read_cells,
    read_columns,
)
from shared.errors import InvalidInput
from tests.builders import a_column


def faults_of(raw, *, existing=(), made=0):
    with pytest.raises(InvalidInput) as refused:
        read_columns(raw, existing=existing, made=made)
    return [(fault.code, fault.pointer) for fault in refused.value.faults]


def test_new_columns_get_the_next_ids():
    columns, made = read_columns(
        [{"name": "到期時間", "type": "datetime"}, {"name": "Done", "type": "checkbox"}], made=4
    )

    assert [(column.id, column.name) for column in columns] == [("c5", "到期時間"), ("c6", "Done")]
    assert made == 6


def test_a_column_is_renamed_by_its_id():
    due = a_column(id="c1", name="due", type="date")

    columns, made = read_columns(
        [{"id": "c1", "name": "deadline", "type": "date"}], existing=(due,), made=1
    )

    assert columns == (a_column(id="c1", name="deadline", type="date"),)
    assert made == 1


def test_a_column_keeps_its_id_by_its_name():
    due = a_column(id="c1", name="due", type="date")

    columns, made = read_columns(
        [{"name": "new", "type": "text"}, {"name": "due", "type": "date"}], existing=(due,), made=3
    )

    assert [column.id for column in columns] == ["c4", "c1"]
    assert made == 4


def test_the_old_name_of_a_renamed_column_is_free_for_a_new_one():
    existing = (a_column(id="c1", name="a"), a_column(id="c2", name="b"))

    columns, made = read_columns(
        [{"id": "c1", "name": "b", "type": "text"}, {"name": "a", "type": "text"}],
        existing=existing,
        made=2,
    )

    assert [(column.id, column.name) for column in columns] == [("c1", "b"), ("c3", "a")]
    assert made == 3


def test_the_id_of_a_dropped_column_is_not_given_again():
    columns, made = read_columns([{"name": "b", "type": "text"}], existing=(), made=7)

    assert columns[0].id == "c8"
    assert made == 8


@pytest.mark.parametrize(
    ("raw", "faults"),
    [
        (None, [("columns_invalid", "")]),
        ({}, [("columns_invalid", "")]),
        ([{"name": f"n{n}", "type": "text"} for n in range(201)], [("columns_invalid", "")]),
        (["a"], [("column_invalid", "/0")]),
        ([{}], [("column_invalid", "/0/name"), ("column_invalid", "/0/type")]),
        ([{"name": " ", "type": "text"}], [("column_invalid", "/0/name")]),
        ([{"name": "x" * 201, "type": "text"}], [("column_invalid", "/0/name")]),
        ([{"name": "a}b", "type": "text"}], [("column_invalid", "/0/name")]),
        ([{"name": "a", "type": ["text"]}], [("column_invalid", "/0/type")]),
        ([{"name": "a", "type": "text", "options": []}], [("column_invalid", "/0/options")]),
        ([{"name": "a", "type": "select"}], [("column_invalid", "/0/options")]),
        ([{"name": "a", "type": "select", "options": []}], [("column_invalid", "/0/options")]),
        ([{"name": "a", "type": "select", "options": [1]}], [("column_invalid", "/0/options")]),
        (
            [{"name": "a", "type": "select", "options": ["x", "x"]}],
            [("column_invalid", "/0/options")],
        ),
        ([{"name": "a", "type": "text", "x/y": 1}], [("column_invalid", "/0/x~1y")]),
        ([{"name": 1, "type": "text"}], [("column_invalid", "/0/name")]),
        ([{"id": 1, "name": "a", "type": "text"}], [("column_invalid", "/0/id")]),
        ([{"id": "c9", "name": "a", "type": "text"}], [("column_unknown", "/0/id")]),
        (
            [{"name": "a", "type": "text"}, {"name": "a", "type": "date"}],
            [("column_duplicate", "/1/name")],
        ),
    ],
)
def test_columns_are_refused(raw, faults):
    assert faults_of(raw) == faults


def test_two_entries_do_not_mean_one_column():
    raw = [{"id": "c1", "name": name, "type": "text"} for name in ("a", "b")]

    assert faults_of(raw, existing=(a_column(id="c1"),), made=1) == [("column_duplicate", "/1/id")]


def test_a_column_comes_back_from_its_stored_form():
    column = a_column(type="select", options=("a", "b"))

    assert column_from_json(json.loads(json.dumps(column.to_json()))) == column


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        ("text", ""),
        ("text", "x" * 10_000),
        ("number", 0),
        ("number", -1.5),
        ("number", 10**22),
        ("checkbox", False),
        ("select", "open"),
        ("date", "not a date"),
        ("datetime", "2026-01-01 10:00"),
        ("json", [{"a": [1, None]}]),
        ("json", True),
    ],
)
def test_a_cell_takes(column_type, value):
    assert cell_fault(a_column(type=column_type, options=("open",)), value) is None


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        ("text", 1),
        ("text", "x" * 10_001),
        ("text", "a\x00"),
        ("number", True),
        ("number", "1"),
        ("number", 10**400),
        ("number", float("inf")),
        ("checkbox", 1),
        ("checkbox", "true"),
        ("select", "closed"),
        ("select", ["open"]),
        ("date", 20260101),
        ("datetime", {"a": 1}),
        ("json", "x" * 100_001),
    ],
)
def test_a_cell_does_not_take(column_type, value):
    assert "'due'" in cell_fault(a_column(name="due", type=column_type, options=("open",)), value)


def test_a_json_cell_takes_no_more_levels_than_a_body():
    value = 1
    for _ in range(32):
        value = [value]

    assert cell_fault(a_column(type="json"), value) is None
    assert cell_fault(a_column(type="json"), {"deeper": value}) is not None


@pytest.mark.parametrize(
    "column_type", ["text", "number", "checkbox", "select", "date", "datetime", "json"]
)
def test_null_is_a_cell_of_every_column(column_type):
    assert cell_fault(a_column(type=column_type), None) is None


def test_cells_are_read_by_name_and_kept_by_id():
    columns = (a_column(id="c1", name="a"), a_column(id="c2", name="b", type="number"))

    assert read_cells({"b": 1}, columns) == {"c2": 1}
    assert read_cells({"b": None, "a": "x"}, columns) == {"c2": None, "c1": "x"}
    assert cells_by_name({"c2": 1}, columns) == {"a": None, "b": 1}


def test_all_bad_cells_are_told():
    columns = (a_column(id="c1", name="a/b"), a_column(id="c2", name="n", type="number"))

    with pytest.raises(InvalidInput) as refused:
        read_cells({"a/b": 1, "x": 1, "n": "1"}, columns, "/data")

    assert [(fault.code, fault.pointer) for fault in refused.value.faults] == [
        ("cell_invalid", "/data/a~1b"),
        ("column_unknown", "/data/x"),
        ("cell_invalid", "/data/n"),
    ]


def test_the_cells_of_a_record_have_a_size_together():
    columns = tuple(a_column(id=f"c{n}", name=str(n), type="json") for n in range(3))
    just = {"0": "x" * 99_998, "1": ["x" * 99_996], "2": "x" * (MAX_RECORD - 199_998)}

    assert len(read_cells(just, columns)) == 3
    with pytest.raises(InvalidInput) as refused:
        read_cells({**just, "2": just["2"] + "x"}, columns, "/data")
    assert [(fault.code, fault.pointer) for fault in refused.value.faults] == [
        ("record_too_large", "/data")
    ]


def test_the_json_of_a_record_has_a_number_of_values_together():
    columns = (a_column(id="c1", name="a", type="json"), a_column(id="c2", name="b", type="json"))
    just = {"a": {"x": [[]] * 4_998}, "b": [1] * 5_001}

    assert len(read_cells(just, columns)) == 2
    with pytest.raises(InvalidInput) as refused:
        read_cells({**just, "b": [*just["b"], 1]}, columns)
    assert refused.value.code == "record_too_large"


@pytest.mark.parametrize("raw", [None, [], "x", 1])
def test_cells_must_be_an_object(raw):
    with pytest.raises(InvalidInput) as refused:
        read_cells(raw, ())

    assert refused.value.code == "cells_invalid"


_STORED = (
    Column(id="c1", name="title", type="text"),
    Column(id="c2", name="due", type="datetime"),
)


@pytest.mark.parametrize(
    ("written", "ids", "made"),
    [
        ([{"id": "c2", "name": "till"}], ["c2"], 3),  # the column, under another name
        ([{"id": "c9", "name": "due"}], ["c2"], 3),  # unknown here: the column of the name
        ([{"id": "c3", "name": "new"}], ["c4"], 4),  # dropped before: its cells stay away
        ([{"id": "c7", "name": "new"}, {"name": "newer"}], ["c7", "c8"], 8),
        ([{"id": "c2", "name": "title"}, {"name": "due"}], ["c2", "c4"], 4),
        ([{"id": "c9", "name": "due"}, {"id": "c2", "name": "till"}], ["c9", "c2"], 9),
    ],
)
def test_ids_from_elsewhere_count_where_they_mean_something(written, ids, made):
    raw = [{"type": "text", **entry} for entry in written]

    columns, given = read_columns(raw, existing=_STORED, made=3, from_elsewhere=True)

    assert ([column.id for column in columns], given) == (ids, made)


@pytest.mark.parametrize("column_id", ["c0", "c01", "1", "c1234567890", "c\u0661", "c1\n", ""])
def test_an_id_from_elsewhere_must_look_like_one(column_id):
    with pytest.raises(InvalidInput) as caught:
        read_columns([{"id": column_id, "name": "a", "type": "text"}], made=0, from_elsewhere=True)

    assert caught.value.code == "column_invalid"
