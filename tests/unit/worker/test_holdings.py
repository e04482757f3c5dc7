from uuid import UUID

import pytest

from services.worker.holdings import Held, Holdings
from shared.lifecycle import monotonic
from tests.builders import a_claimed_run


def held(id=1, *, lease=1, seconds=300.0):
    run = a_claimed_run(id=id, lease_token=UUID(int=lease))
    return Held(run, until=monotonic() + seconds)


def key(held):
    return held.work.id, held.work.lease_token


@pytest.fixture
def holdings():
    return Holdings()


@pytest.mark.parametrize(("left", "needed", "enough"), [(300, 20, True), (24, 20, False)])
def test_an_action_needs_its_time_and_that_for_its_receipt(left, needed, enough):
    assert held(seconds=left).has_time_for(needed) is enough


def test_a_fenced_run_has_no_time_left():
    one = held()
    one.fenced = True

    assert not one.has_time_for(0)


def test_what_is_held_is_found_by_run_and_lease(holdings):
    first, second = held(lease=1), held(lease=2)
    holdings.add(first)
    holdings.add(second)

    assert holdings.get(second.work) is second
    assert holdings.all() == [first, second]
    holdings.drop(second)
    holdings.drop(second)
    assert holdings.all() == [first]


def test_a_renewal_extends_fences_or_leaves_each_lease(holdings):
    renewed, locked, lost, gone = (held(id) for id in range(4))
    asked = [renewed, locked, lost, gone]
    for one in asked:
        holdings.add(one)
    holdings.drop(gone)
    before = locked.until

    fenced = holdings.renewed(
        asked, leases={key(renewed): True, key(locked): False}, until=before + 30
    )

    assert fenced == [lost]
    assert [one.fenced for one in asked] == [False, False, True, False]
    assert (renewed.until, locked.until) == (before + 30, before)


def test_another_lease_of_the_same_run_is_another(holdings):
    old, new = held(lease=1), held(lease=2)
    holdings.add(old)
    holdings.add(new)

    assert holdings.renewed([old, new], leases={key(new): True}, until=0.0) == [old]
