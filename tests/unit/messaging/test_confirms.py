import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messaging.amqp_publisher import Confirms


def _sent(count):
    confirms = Confirms()
    for tag in range(1, count + 1):
        confirms.sent(tag, [f"row {tag}"])
    return confirms


def test_one_answer_settles_all_messages_up_to_it():
    confirms = _sent(3)

    confirms.answered(2, multiple=True, accepted=True)
    assert not confirms.complete

    confirms.answered(3, multiple=False, accepted=True)
    assert confirms.complete
    assert confirms.unconfirmed == []


def test_a_refused_message_is_not_confirmed():
    confirms = _sent(3)

    confirms.answered(3, multiple=False, accepted=True)
    confirms.answered(2, multiple=True, accepted=False)

    assert confirms.complete
    assert confirms.unconfirmed == ["row 1", "row 2"]


def test_a_returned_message_is_not_confirmed_although_it_is_acknowledged():
    confirms = _sent(2)

    confirms.returned(1)
    confirms.answered(2, multiple=True, accepted=True)

    assert confirms.unconfirmed == ["row 1"]


@pytest.mark.parametrize("multiple", [True, False])
def test_an_answer_to_a_message_of_an_earlier_call_changes_nothing(multiple):
    confirms = Confirms()
    confirms.sent(8, ["row 8"])

    confirms.answered(7, multiple=multiple, accepted=False)

    assert not confirms.complete
    assert confirms.unconfirmed == []


@given(st.permutations(range(1, 9)), st.sets(st.integers(1, 8)))
def test_every_row_is_confirmed_or_told_whatever_the_order(order, refused):
    confirms = _sent(8)

    for tag in order:
        confirms.answered(tag, multiple=False, accepted=tag not in refused)

    assert confirms.complete
    assert sorted(confirms.unconfirmed) == sorted(f"row {tag}" for tag in refused)
