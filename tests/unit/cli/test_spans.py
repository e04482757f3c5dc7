import pytest

from services.cli.spans import beside, on_the_clock, span_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7260, "2 h 1 min"),
        (90_061, "1 d 1 h"),
        (86_405, "1 d 5 s"),
    ],
)
def test_a_length_is_told_in_its_two_largest_units(seconds, text):
    assert span_text(seconds) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-07-25T09:00:00Z", "now"),
        ("2026-07-25T09:00:00", "now"),
        ("2026-07-25T11:01:00Z", "in 2 h 1 min"),
        ("2026-07-22T08:00:00", "3 d 1 h ago"),
    ],
)
def test_an_instant_is_told_from_another(at, text):
    assert beside(at, "2026-07-25T09:00:00Z") == text


def test_less_than_a_second_is_now():
    assert beside("2026-07-25T09:00:00.9Z", "2026-07-25T09:00:00") == "now"


def test_a_window_is_told_on_the_clock_of_its_zone():
    window = {"local": "2026-03-08T03:30:00", "offset": "-04:00"}

    assert on_the_clock(window) == "2026-03-08 03:30 -04:00"
    assert on_the_clock(window | {"offset": "+00:00"}) == "2026-03-08 03:30 UTC"
