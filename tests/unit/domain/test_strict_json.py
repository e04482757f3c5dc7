"""The reader that stands before every schema."""

import json
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.strict_json import loads
from shared.errors import InvalidInput
from tests.strategies import json_values


def code_of(data):
    with pytest.raises(InvalidInput) as refused:
        loads(data)
    return refused.value.code


@given(json_values)
def test_what_json_can_hold_comes_back_unchanged(value):
    assert loads(json.dumps(value).encode()) == value
    assert loads(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary())
def test_no_bytes_raise_anything_but_invalid_input(data):
    with suppress(InvalidInput):
        loads(data)


@given(st.text(alphabet='[]{}"\\u0:,1eE.- \n', max_size=300))
def test_no_punctuation_raises_anything_but_invalid_input(text):
    with suppress(InvalidInput):
        loads(text.encode())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "json_malformed"),
        (b"{", "json_malformed"),
        (b"{} {}", "json_malformed"),
        (b'{"a": 1,}', "json_malformed"),
        (b"{'a': 1}", "json_malformed"),
        (b'"a\nb"', "json_malformed"),
        (b"\xef\xbb\xbf{}", "json_malformed"),
        (b'"\xff"', "json_not_utf8"),
        ('"\ud800"'.encode("utf-8", "surrogatepass"), "json_not_utf8"),
        ('{"a": 1}'.encode("utf-16"), "json_not_utf8"),
        (b'"\\u0000"', "json_text_invalid"),
        (b'{"a": [{"\\u0000": 1}]}', "json_text_invalid"),
        (b'"\\ud800"', "json_text_invalid"),
        (b'"\\udc00\\ud800"', "json_text_invalid"),
        (b"NaN", "json_number_invalid"),
        (b'{"a": -Infinity}', "json_number_invalid"),
        (b"1e400", "json_number_invalid"),
        (b"-1e400", "json_number_invalid"),
        (b"9223372036854775808", "json_number_invalid"),
        (b"-9223372036854775808", "json_number_invalid"),
        (b"1" * 5000, "json_number_invalid"),
        (b'{"a": 1, "b": 2, "a": 3}', "json_duplicate_key"),
        (b'[{"a": {"x": 1, "x": 1}}]', "json_duplicate_key"),
        (b'{"a": 1, "\\u0061": 1}', "json_duplicate_key"),
    ],
)
def test_it_refuses(data, code):
    assert code_of(data) == code


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775807", -(2**63) + 1),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'{"a": "[[[["}', {"a": "[[[["}),
        (b" [1, 2.5, true, null] ", [1, 2.5, True, None]),
    ],
)
def test_it_reads(data, value):
    assert loads(data) == value


def test_large_numbers_are_read_for_who_refuses_them_later():
    data = b"[9223372036854775808, -1e400, 1e400, %s, -%s]" % (b"1" * 5000, b"1" * 5000)

    assert loads(data, large_numbers=True) == [
        2**63,
        -sys.float_info.max,
        sys.float_info.max,
        10**300,
        -(10**300),
    ]
    with pytest.raises(InvalidInput):
        loads(b"NaN", large_numbers=True)


def test_it_tells_booleans_integers_and_floats_apart():
    assert [type(item) for item in loads(b"[true, 1, 1.0]")] == [bool, int, float]


def test_thirty_two_levels_are_read_and_thirty_three_are_not():
    assert loads(b"[" * 32 + b"]" * 32) is not None
    assert code_of(b"[" * 33 + b"]" * 33) == "json_too_deep"
    assert code_of(b'{"a":' * 33 + b"1" + b"}" * 33) == "json_too_deep"


def test_breadth_is_not_depth():
    assert len(loads(b"[" + b"{}," * 999 + b"{}]")) == 1000


def test_brackets_in_texts_are_not_depth():
    text = '["' + "[" * 100 + '\\"' + "{" * 100 + '"]'

    assert loads(text.encode()) == ["[" * 100 + '"' + "{" * 100]


def test_depth_is_refused_before_the_parser_recurses():
    assert code_of(b"[" * 1_000_000) == "json_too_deep"
    assert code_of(b'{"a":' * 100_000) == "json_too_deep"


def test_an_unclosed_text_full_of_escapes_is_read_once():
    assert code_of(b"[" * 33 + b'"' + b'\\"' * 1_000_000) == "json_too_deep"
    assert code_of(b'["' + b'[\\"' * 1_000_000) == "json_malformed"


def test_a_repeated_key_is_found_among_very_many():
    members = [f'"{n}": 0' for n in range(200_000)]

    assert code_of(("{" + ", ".join([*members, members[-1]]) + "}").encode()) == (
        "json_duplicate_key"
    )
