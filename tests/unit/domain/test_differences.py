"""How two JSON values differ, and numbers on their way through the database."""

import json

import pytest

from shared.domain.differences import Change, as_stored, as_written, canonical, differences
from shared.domain.strict_json import loads


def told(before, after):
    return [
        (change.op, change.pointer, change.before, change.after)
        for change in differences(before, after)
    ]


def test_members_that_come_go_and_change_are_told_in_the_order_of_what_is_wanted():
    before = {"gone": 1, "kept": [1], "other": "a"}
    after = {"new": None, "other": "b", "kept": [1]}

    assert told(before, after) == [
        ("add", "/new", None, None),
        ("replace", "/other", "a", "b"),
        ("remove", "/gone", 1, None),
    ]


def test_lists_are_compared_place_by_place():
    assert told([1, {"a": 1}, 3], [1, {"a": 2}]) == [
        ("replace", "/1/a", 1, 2),
        ("remove", "/2", 3, None),
    ]
    assert told([], [7]) == [("add", "/0", None, 7)]


@pytest.mark.parametrize(
    ("before", "after"), [(0, False), (1, True), (1, 1.0), ("1", 1), (None, False), ([], {})]
)
def test_what_python_calls_equal_is_not_the_same(before, after):
    assert list(differences(before, after)) == [
        Change(op="replace", pointer="", before=before, after=after)
    ]
    assert canonical(before) != canonical(after)


def test_a_pointer_escapes_keys():
    assert told({"a/b~": 1}, {"a/b~": 2}) == [("replace", "/a~1b~0", 1, 2)]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (1e16, 10**16),
        (1e300, 10**300),
        (-1.5e20, -150000000000000000000),
        (-0.0, 0.0),
        (0.1, 0.1),
        (1.0, 1.0),
        (True, True),
        ({"a": [1e16]}, {"a": [10**16]}),
    ],
)
def test_numbers_are_compared_as_the_database_gives_them_back(written, stored):
    assert canonical(as_stored(written)) == canonical(stored)


@pytest.mark.parametrize("stored", [10**300, -(10**19), 2**63 - 1, 0, True, {"a": [10**40, "b"]}])
def test_a_stored_number_is_written_so_that_it_is_read_and_the_same_again(stored):
    text = json.dumps(as_written(stored)).encode()

    assert canonical(as_stored(loads(text))) == canonical(stored)
