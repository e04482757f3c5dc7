import pytest

from services.api.bulk_lines import MAX_LINE_BYTES, read_csv, read_json_lines, split_lines
from shared.errors import InvalidInput
from tests.builders import a_column

COLUMNS = (
    a_column(id="c1", name="名稱"),
    a_column(id="c2", name="amount", type="number"),
    a_column(id="c3", name="done", type="checkbox"),
    a_column(id="c4", name="due", type="date"),
    a_column(id="c5", name="more", type="json"),
)


def in_pieces(data, size=7):
    return (data[start : start + size] for start in range(0, len(data), size))


def told(lines):
    return [(line.number, line.cells or line.fault.code) for line in lines]


def json_lines(data, **options):
    return told(read_json_lines(in_pieces(data, **options), COLUMNS))


def csv(data, **options):
    return told(read_csv(in_pieces(data, **options), COLUMNS))


def test_json_lines_are_read_by_column_name():
    body = '{"名稱": "a", "amount": 1.5}\n{"done": true}'.encode()

    assert json_lines(body) == [(1, {"c1": "a", "c2": 1.5}), (2, {"c3": True})]


def test_blank_lines_count_but_are_no_records():
    body = b'\n{"amount": 1}\r\n  \n{"amount": 2}\n\n'

    assert json_lines(body) == [(2, {"c2": 1}), (4, {"c2": 2})]


def test_a_byte_order_mark_is_no_part_of_the_first_line():
    assert json_lines(b'\xef\xbb\xbf{"amount": 1}\n') == [(1, {"c2": 1})]
    assert csv(b"\xef\xbb\xbfamount\n1\n") == [(2, {"c2": 1})]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "json_malformed"),
        (b"[1]", "cells_invalid"),
        (b'{"amount": NaN}', "json_number_invalid"),
        (b'{"amount": "1"}', "cell_invalid"),
        (b'{"amount": true}', "cell_invalid"),
        (b'{"other": 1}', "column_unknown"),
        (b'{"amount": 1, "amount": 2}', "json_duplicate_key"),
        (b'{"more": "\xff"}', "json_not_utf8"),
        (b'{"more": "\\ud800"}', "json_text_invalid"),
        (b"[" * 10_000, "json_too_deep"),
        (b'{"more": "' + b"a" * MAX_LINE_BYTES + b'"}', "line_invalid"),
    ],
)
def test_a_line_that_is_no_record_is_refused_alone(line, code):
    body = b'{"amount": 1}\n' + line + b'\n{"amount": 2}\n'

    assert json_lines(body, size=64 * 1024) == [(1, {"c2": 1}), (2, code), (3, {"c2": 2})]


def test_a_body_of_blank_lines_takes_no_longer_than_its_size():
    blank = 2 * MAX_LINE_BYTES * b"\n"  # minutes, when every line copies those before it

    assert json_lines(blank + b'{"amount": 1}', size=64 * 1024) == [(len(blank) + 1, {"c2": 1})]
    assert csv(b"amount\n" + blank + b"1\n", size=64 * 1024) == [(len(blank) + 2, {"c2": 1})]


def test_fields_of_many_lines_take_no_longer_than_their_size():
    field = b'"' + 131_070 * b"\n" + b'"\n'

    assert csv(b"amount\n" + 16 * field, size=64 * 1024)[-1][1] == "line_invalid"


def test_the_raw_bytes_of_the_lines_are_those_of_the_body():
    body = b'\n{"amount": 1}\n{\n\n{"amount": 2}'

    for size in (1, 5, 100):
        lines = read_json_lines(in_pieces(body, size=size), COLUMNS)
        assert b"".join(line.raw for line in lines) == body


def test_a_line_over_the_limit_is_cut_at_the_same_place_however_it_arrives():
    body = b"a" * (MAX_LINE_BYTES + 100_000) + b"\nb\n"

    found = {tuple(split_lines(in_pieces(body, size=size))) for size in (65_536, 1_000_000)}

    assert found == {(b"a" * (MAX_LINE_BYTES + 1), b"b\n")}


def test_csv_fields_become_cells_of_their_columns():
    body = 'done,amount,名稱,due,more\r\nTRUE,-12,a,2026-01-02,"{""x"": [1]}"\nfalse,1e3,,,\n'

    assert csv(body.encode()) == [
        (2, {"c3": True, "c2": -12, "c1": "a", "c4": "2026-01-02", "c5": {"x": [1]}}),
        (3, {"c3": False, "c2": 1000.0}),
    ]


def test_a_quoted_field_may_span_lines():
    assert csv('名稱,amount\n"a\nb",1\n'.encode()) == [(3, {"c1": "a\nb", "c2": 1})]


@pytest.mark.parametrize("rest", ['"2\n3\n', '"2"3\n'])
def test_a_quote_that_is_not_closed_is_no_text(rest):
    assert csv(f"名稱\n1\n{rest}".encode())[1][1] == "line_invalid"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (b"x", "line_invalid"),
        (b"1,2", "line_invalid"),
        (b"0x10", "line_invalid"),
        (b"007", "line_invalid"),
        (b"1_0", "line_invalid"),
        (b"NaN", "line_invalid"),
        (b"1e400", "line_invalid"),
        (b"9" * 5000, "line_invalid"),
        (b"\xff", "line_invalid"),
        (b"\x00", "line_invalid"),
        (b'"' + b"1" * 200_000 + b'"', "line_invalid"),
        (b"1" * (MAX_LINE_BYTES + 5), "line_invalid"),
        (b"true", "cell_invalid"),
    ],
)
def test_a_row_that_is_no_record_is_refused_alone(row, code):
    body = b"amount\n1\n" + row + b"\n2\n"

    assert csv(body, size=64 * 1024) == [(2, {"c2": 1}), (3, code), (4, {"c2": 2})]


@pytest.mark.parametrize(
    "header",
    [
        b"other\n",
        b"amount,amount\n",
        b"\n",
        b"amount,\n",
        b"\xff\n",
        b"\0\n",
        b'"' + b"a" * 200_000 + b"\n",
    ],
)
def test_a_header_that_does_not_name_columns_is_refused_before_any_row(header):
    with pytest.raises(InvalidInput):
        next(read_csv(iter([header + b"1\n"]), COLUMNS))


def test_the_raw_bytes_of_csv_rows_are_those_of_the_body():
    body = b'amount\n1\n\n"2\n'

    assert b"".join(line.raw for line in read_csv(iter([body]), COLUMNS)) == body
