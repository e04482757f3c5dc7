from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.on_existing import Backlog, OnExisting, read_on_existing
from shared.errors import InvalidInput
from tests.builders import NOW

MINUTE = timedelta(minutes=1)


@given(
    per_minute=st.integers(1, 5),
    looks=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 6)), max_size=30),
)
def test_no_minute_has_more_than_the_rate(per_minute, looks):
    backlog = Backlog(mode="drip", before=NOW, per_minute=per_minute)
    now, fired = NOW, []
    for seconds, waiting in looks:
        now += timedelta(seconds=seconds)
        count = min(waiting, backlog.room(now))
        backlog = backlog.after(count, now=now, waiting=waiting > count)
        fired += [now] * count

        assert len([at for at in fired if at > now - MINUTE]) <= per_minute
        assert backlog.look_at is None or backlog.room(backlog.look_at) > 0


def test_what_has_waited_a_minute_may_fire():
    backlog = Backlog(mode="drip", before=NOW, per_minute=2)

    spent = backlog.after(2, now=NOW, waiting=True)

    assert (spent.room(NOW + MINUTE - timedelta(seconds=1)), spent.room(NOW + MINUTE)) == (0, 2)
    assert spent.look_at == NOW + MINUTE


@pytest.mark.parametrize(("mode", "per_minute"), [("drip", None), ("fire", 1), ("consume", 1)])
def test_a_rate_belongs_to_a_drip(mode, per_minute):
    with pytest.raises(InvalidInput) as refused:
        read_on_existing(mode, per_minute)

    assert refused.value.faults[0].pointer == "/per_minute"
    assert read_on_existing("drip", 3) == OnExisting(mode="drip", per_minute=3)
