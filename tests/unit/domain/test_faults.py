"""Pointers, and the order in which faults are told."""

import pytest

from shared.actions.registry import check_actions
from shared.domain.columns import read_cells, read_columns
from shared.domain.conditions import read_when
from shared.domain.faults import MAX_POINTER, MAX_TOLD, child, cut, in_document_order, under
from shared.domain.triggers import read_trigger
from shared.errors import Fault, InvalidInput
from shared.schedule.parse import schedule_faults


def a_fault(pointer, code="x"):
    return Fault(code=code, pointer=pointer, message="m")


def ordered(raw, *pointers):
    return [fault.pointer for fault in in_document_order(raw, [a_fault(p) for p in pointers])]


def test_a_pointer_escapes_what_would_part_it():
    assert child(child("", "a/b~c"), 0) == "/a~1b~0c/0"


def test_a_pointer_repeats_no_key_that_is_as_long_as_a_body():
    assert child("/a", "k" * 100_000) == "/a/" + (MAX_POINTER - 1) * "k" + "…"


def test_faults_of_a_part_are_told_from_the_whole():
    assert under("/triggers/1", [a_fault("/id"), a_fault("")]) == [
        a_fault("/triggers/1/id"),
        a_fault("/triggers/1"),
    ]


def test_faults_are_told_in_the_order_of_the_document():
    raw = {"b": [{"x": 1}, {"y": 1}], "a/b": {"c": 1}}

    assert ordered(raw, "/a~1b/c", "/b/1/y", "/b/0/x", "/b/1", "") == [
        "",
        "/b/0/x",
        "/b/1",
        "/b/1/y",
        "/a~1b/c",
    ]


def test_list_places_are_numbers_not_texts():
    raw = {"a": list(range(11))}

    assert ordered(raw, "/a/10", "/a/9") == ["/a/9", "/a/10"]


def test_a_missing_member_is_told_after_those_that_are_there():
    raw = [{"name": 1}, {}]

    assert ordered(raw, "/0/type", "/1/name", "/0/name", "/7") == [
        "/0/name",
        "/0/type",
        "/1/name",
        "/7",
    ]


def test_faults_of_one_place_keep_their_order():
    faults = [a_fault("/a", "second"), a_fault("/a", "first")]

    assert in_document_order({"a": 1}, faults) == faults


def test_pointers_into_what_has_no_members_are_no_exception():
    assert ordered("text", "/a/0", "/b") == ["/a/0", "/b"]
    assert ordered([1], "/²", "/-") == ["/²", "/-"]


def test_long_input_is_quoted_in_part():
    assert cut("x" * 200) == "x" * 200
    assert len(cut("x" * 201)) == 200


def test_very_many_faults_of_one_object_are_put_in_order():
    raw = {f"k{n}": n for n in range(50_000)}
    pointers = [f"/{key}" for key in raw]

    assert ordered(raw, *reversed(pointers)) == pointers


def of_cells(many):
    with pytest.raises(InvalidInput) as refused:
        read_cells(many, ())
    return refused.value.faults


def of_columns(many):
    with pytest.raises(InvalidInput) as refused:
        read_columns([many], made=0)
    return refused.value.faults


CALL = {"type": "api_call", "method": "GET", "url": "https://a.example/"}


def of_actions(action):
    return check_actions(
        10 * [action], on="record_created", schedule_kind=None, columns=(), lookup=None
    )


@pytest.mark.parametrize(
    "faults_of",
    [
        of_cells,
        of_columns,
        lambda many: of_actions({**CALL, **many}),
        lambda many: of_actions({**CALL, "query": {name: {} for name in many}}),
        lambda many: of_actions({"type": "update_record", "data": many}),
        lambda many: read_trigger(many, ()).faults,
        lambda many: schedule_faults({"type": "cron", **many}),
        lambda many: read_when(100 * [many], (), on=None)[1],
    ],
)
def test_an_object_that_is_wrong_in_a_thousand_places_is_not_told_all_of_them(faults_of):
    found = faults_of(dict.fromkeys(map(str, range(1000)), 1))

    assert MAX_TOLD <= len(found) <= MAX_TOLD + 10
