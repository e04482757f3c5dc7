"""Pointers, and the order in which faults are told."""

from shared.domain.faults import MAX_POINTER, child, cut, in_document_order, under
from shared.errors import Fault


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
