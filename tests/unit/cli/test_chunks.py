import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.chunks import Chunk, cut, format_of
from shared.errors import InvalidInput


def lines(text):
    return text.encode().splitlines(keepends=True)


def bodies(text, format="csv", **options):
    return [chunk.body.decode() for chunk in cut(lines(text), format, **options)]


def test_every_chunk_of_csv_has_the_header():
    assert bodies("a,b\n1,2\n3,4\n5,6\n", records=2) == ["a,b\n1,2\n3,4\n", "a,b\n5,6\n"]


def test_a_row_with_line_breaks_is_not_cut():
    text = 'a\n"1\n2"\n"3\n""4"""\n5\n'

    assert bodies(text, records=1) == ['a\n"1\n2"\n', 'a\n"3\n""4"""\n', "a\n5\n"]


def test_a_lone_quote_inside_a_field_does_not_join_rows():
    assert bodies('a\n5" pipe\n6\n', records=1) == ['a\n5" pipe\n', "a\n6\n"]


def test_json_lines_are_cut_at_lines():
    assert bodies('{"a": 1}\n{"a": 2}\n{"a": 3}', "jsonl", records=2) == [
        '{"a": 1}\n{"a": 2}\n',
        '{"a": 3}',
    ]


@pytest.mark.parametrize(("text", "format"), [("", "csv"), ("a,b\n", "csv"), ("", "jsonl")])
def test_without_records_there_is_no_chunk(text, format):
    assert bodies(text, format, records=10) == []


def test_a_chunk_says_where_in_the_file_its_lines_are():
    chunks = list(cut(lines('a\n1\n"2\n2"\n3\n4\n'), "csv", records=2))

    # Line 2 of the second upload, behind its header, is line 5 of the file.
    assert [chunk.line_offset for chunk in chunks] == [0, 3]


def test_long_records_make_small_chunks():
    long = "x" * 1_500_000

    assert [chunk.records for chunk in cut(lines(f"{long}\n" * 5), "jsonl", records=10)] == [
        2,
        2,
        1,
    ]


def test_a_text_for_empty_fields_is_replaced_in_rows_and_not_in_the_header():
    text = 'NA,b\nNA,"x,NA"\nNAN,NA\n'

    assert bodies(text, records=9, null="NA") == ['NA,b\n,"x,NA"\nNAN,\n']


def test_bytes_that_are_no_text_pass_unchanged():
    [chunk] = cut([b"a,b\n", b"\xff,NA\n", b"\xfe\n"], "csv", records=9, null="NA")

    assert chunk.body == b"a,b\n\xff,\n\xfe\n"


def test_the_key_is_of_the_records_their_place_and_the_salt():
    chunk = Chunk(body=b"a", records=1, line_offset=0)
    others = [
        Chunk(body=b"b", records=1, line_offset=0),
        Chunk(body=b"a", records=1, line_offset=1),
    ]

    assert chunk.key(salt="x") == chunk.key(salt="x")
    assert len({one.key(salt="x") for one in (chunk, *others)} | {chunk.key(salt="y")}) == 4
    assert len(chunk.key(salt="x")) <= 255


def test_the_format_is_told_by_the_name(tmp_path):
    names = {"a.csv": "csv", "a.CSV.gz": "csv", "a.jsonl": "jsonl", "b.ndjson.gz": "jsonl"}

    assert {name: format_of(tmp_path / name) for name in names} == names
    with pytest.raises(InvalidInput, match="--format"):
        format_of(tmp_path / "a.gz")


@given(
    rows=st.lists(st.lists(st.text("a\",\n'", max_size=5), min_size=2, max_size=2), max_size=20),
    records=st.integers(1, 5),
)
def test_chunks_without_their_headers_are_the_file(rows, records):
    def quoted(field):
        return '"' + field.replace('"', '""') + '"'

    body = "".join(f"{','.join(map(quoted, row))}\n" for row in rows)
    header = "a,b\n"

    chunks = list(cut(lines(header + body), "csv", records=records))

    assert "".join(chunk.body.decode().removeprefix(header) for chunk in chunks) == body
    assert sum(chunk.records for chunk in chunks) == len(rows)
