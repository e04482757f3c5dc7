import pytest

from services.api.parameters import read_idempotency_key, read_if_match, read_query
from shared.errors import InvalidInput


def test_a_query_is_read_with_its_escapes():
    assert read_query("where=%5B%5D&name=%E6%A1%88+1&empty=") == {
        "where": "[]",
        "name": "案 1",
        "empty": "",
    }


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("a=1&a=2", id="a name twice"),
        pytest.param("a=%00", id="NUL"),
        pytest.param("a=%ff", id="not UTF-8"),
        pytest.param("a=%ed%a0%80", id="a surrogate"),
        pytest.param("a=\xe9", id="raw bytes"),
        pytest.param("&".join(f"a{n}=1" for n in range(51)), id="too many"),
    ],
)
def test_a_query_that_could_mean_something_else_is_refused(query):
    with pytest.raises(InvalidInput) as refused:
        read_query(query)
    assert refused.value.code == "query_invalid"


@pytest.mark.parametrize(
    ("header", "revision"), [(None, None), ("*", None), ('"3"', 3), (' "12" ', 12)]
)
def test_if_match_names_a_revision(header, revision):
    assert read_if_match(header) == revision


@pytest.mark.parametrize("header", ['W/"3"', '"abc"', '""', '"' + "9" * 50 + '"', '"-3"'])
def test_a_tag_that_is_not_ours_matches_no_revision(header):
    assert read_if_match(header) == -1


@pytest.mark.parametrize("header", ["", "3", '"3", "4"', '"3', '"\x00"', '"é"'])
def test_what_is_no_single_tag_is_refused(header):
    with pytest.raises(InvalidInput):
        read_if_match(header)


def test_an_idempotency_key_is_taken_as_it_is():
    assert read_idempotency_key("a-key:1") == "a-key:1"
    assert read_idempotency_key(None) is None


@pytest.mark.parametrize("header", ["", "a b", "é", "a\x00", "k" * 256])
def test_what_is_no_idempotency_key_is_refused(header):
    with pytest.raises(InvalidInput):
        read_idempotency_key(header)
