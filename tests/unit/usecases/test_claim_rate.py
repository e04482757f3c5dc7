from hypothesis import given
from hypothesis import strategies as st

from shared.usecases.announce import ClaimRate


def test_what_was_sent_and_waits_no_more_was_claimed():
    rate = ClaimRate()

    assert rate.measure(waiting=0, at=100) == 0
    rate.sent(50)
    assert rate.measure(waiting=30, at=101) == 20
    assert rate.measure(waiting=0, at=102) == 50


def test_what_was_claimed_more_than_five_seconds_ago_does_not_count():
    rate = ClaimRate()
    rate.measure(waiting=0, at=100)
    rate.sent(50)
    rate.measure(waiting=0, at=101)
    rate.sent(10)

    assert rate.measure(waiting=0, at=105) == 60
    assert rate.measure(waiting=0, at=106) == 10
    assert rate.measure(waiting=0, at=200) == 0


def test_what_waited_before_we_began_counts_once_it_is_claimed():
    rate = ClaimRate()

    assert rate.measure(waiting=40, at=100) == 0
    assert rate.measure(waiting=15, at=101) == 25


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.floats(0, 3))))
def test_the_rate_is_never_negative(steps):
    rate = ClaimRate()
    at = 0.0

    for sent, waiting, seconds in steps:
        rate.sent(sent)
        at += seconds
        assert rate.measure(waiting=waiting, at=at) >= 0
