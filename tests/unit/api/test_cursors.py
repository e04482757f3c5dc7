import pytest

from services.api.cursors import Cursors
from shared.errors import InvalidInput


def cursors(*, key=b"k" * 32, context=b"a list"):
    return Cursors(key=key, context=context)


def test_a_cursor_opens_to_the_position_it_was_made_of():
    cursor = cursors().seal(("2026-01-02T03:04:05+00:00", 7))

    assert cursors().open(cursor) == ("2026-01-02T03:04:05+00:00", 7)


def test_a_cursor_changed_in_any_character_is_refused():
    cursor = cursors().seal((2**63 - 1, "x"))

    for index, character in enumerate(cursor):
        other = "A" if character != "A" else "B"
        with pytest.raises(InvalidInput) as refused:
            cursors().open(cursor[:index] + other + cursor[index + 1 :])
        assert refused.value.code == "cursor_invalid"


@pytest.mark.parametrize("cursor", ["", "A", "====", "\x00", "é" * 20, "A" * 501, "A" * 40])
def test_what_is_no_cursor_is_refused(cursor):
    with pytest.raises(InvalidInput):
        cursors().open(cursor)


def test_a_cursor_of_another_list_is_refused():
    cursor = cursors(context=b"another list").seal((1,))

    with pytest.raises(InvalidInput):
        cursors().open(cursor)


def test_a_cursor_sealed_with_another_key_is_refused():
    cursor = cursors(key=b"z" * 32).seal((1,))

    with pytest.raises(InvalidInput):
        cursors().open(cursor)
