"""When work that failed for now is tried again."""

import pytest

from shared.domain.work import retry_delay_seconds


@pytest.mark.parametrize(
    ("attempts", "shortest", "longest"), [(1, 5, 7.5), (2, 20, 30), (3, 80, 120)]
)
def test_delays_grow_and_spread(attempts, shortest, longest):
    assert retry_delay_seconds(attempts=attempts, jitter=0.0) == shortest
    assert shortest < retry_delay_seconds(attempts=attempts, jitter=0.5) < longest


def test_four_executions_are_the_budget():
    assert retry_delay_seconds(attempts=4, jitter=0.0) is None
    assert retry_delay_seconds(attempts=4, jitter=0.0, retry_after=1.0) is None


def test_the_budget_may_be_another():
    assert retry_delay_seconds(attempts=1, jitter=0.0, max_retries=0) is None
    assert retry_delay_seconds(attempts=4, jitter=0.0, max_retries=4) == 320


def test_no_delay_is_longer_than_a_day():
    assert retry_delay_seconds(attempts=10, jitter=0.0, max_retries=10) == 24 * 3600


@pytest.mark.parametrize(
    ("asked", "waited"), [(30.0, 30.0), (0.0, 1.0), (-5.0, 1.0), (1e9, 86_400)]
)
def test_a_receiver_says_when_to_return(asked, waited):
    assert retry_delay_seconds(attempts=1, jitter=0.0, retry_after=asked) == waited
    assert waited < retry_delay_seconds(attempts=1, jitter=0.9, retry_after=asked) < waited * 1.1
