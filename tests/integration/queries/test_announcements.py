from dataclasses import replace
from datetime import timedelta
from typing import get_args
from uuid import UUID

import pytest

from shared.db.clock import server_now
from shared.domain.work import WorkKind
from shared.queries.announcements import (
    announce_batch,
    announce_batch_fairly,
    count_due,
    count_overdue,
    count_running,
    list_waits,
    next_announcement_at,
    unannounce,
)
from tests.builders_db import FAR_OFF, LONG_AGO, cells_of, insert_tenant, row_of
from tests.builders_work import insert_work, insert_works

FIRST = UUID(int=0)


@pytest.fixture(params=get_args(WorkKind))
def kind(request):
    """Each test that takes it holds for both tables."""
    return request.param


@pytest.fixture
def other_kind(kind):
    (other,) = set(get_args(WorkKind)) - {kind}
    return other


def _announce(conn, kind, *, limit=10, urgent=False):
    return announce_batch(conn, kind=kind, urgent=urgent, limit=limit)


def _announce_fairly(conn, kind, *, limit=10, urgent=False, after=FIRST):
    return announce_batch_fairly(conn, kind=kind, urgent=urgent, limit=limit, after=after)


def _announce_at(conn, kind, id):
    return cells_of(conn, kind, id, "announce_at")[0]


def test_two_announcers_never_share_a_row(conn, other_conn, kind):
    insert_works(conn, kind, count=10)

    with conn.transaction():
        first = _announce(conn, kind, limit=5)
        second = _announce(other_conn, kind, limit=5)

    assert len(first) == len(second) == 5
    assert not {row.id for row in first} & {row.id for row in second}


def test_the_oldest_are_announced_first(conn, kind):
    late, early = (
        insert_work(conn, kind, announce_at=LONG_AGO + timedelta(days=days)) for days in (1, 0)
    )

    assert [row.id for row in _announce(conn, kind, limit=1)] == [early]
    assert [row.id for row in _announce(conn, kind, limit=1)] == [late]


@pytest.mark.parametrize("urgent", [True, False])
def test_what_is_urgent_and_what_is_not_are_announced_apart(conn, kind, urgent):
    mine = insert_work(conn, kind, urgent=urgent)
    insert_work(conn, kind, urgent=not urgent)

    (announced,) = _announce(conn, kind, urgent=urgent)

    assert announced.id == mine
    assert _announce_fairly(conn, kind, urgent=urgent) == []
    assert len(_announce_fairly(conn, kind, urgent=not urgent)) == 1


def test_each_table_is_announced_by_itself(conn, kind, other_kind):
    id = insert_work(conn, kind)

    assert _announce(conn, other_kind) == []
    assert _announce_fairly(conn, other_kind) == []
    (announced,) = _announce(conn, kind)
    assert (announced.kind, announced.id) == (kind, id)


def test_an_announcement_keeps_the_token_and_counts(conn, kind):
    id = insert_work(conn, kind, worker_losses=2, urgent=True)
    token = row_of(conn, kind, id)["lease_token"]

    (announced,) = _announce(conn, kind, urgent=True)

    assert (str(announced.token), announced.urgent) == (token, True)
    assert (announced.worker_losses, announced.announcements) == (2, 1)


@pytest.mark.parametrize(
    ("before", "seconds"), [(0, 60), (1, 120), (2, 240), (3, 480), (4, 600), (40, 600)]
)
def test_it_is_announced_again_after_a_growing_time(conn, kind, before, seconds):
    id = insert_work(conn, kind, announcements=before)
    started_at = server_now(conn)

    _announce(conn, kind)

    interval = timedelta(seconds=seconds)
    at = _announce_at(conn, kind, id)
    assert started_at + interval <= at <= server_now(conn) + interval


def test_what_is_not_due_or_not_pending_is_not_announced(conn, kind):
    insert_work(conn, kind, announce_at=FAR_OFF)
    for status in ("held", "done", "failed"):
        insert_work(conn, kind, status=status)

    assert _announce(conn, kind) == []
    assert _announce_fairly(conn, kind) == []


def test_a_small_tenant_is_announced_beside_a_flood(conn, kind):
    insert_works(conn, kind, count=100)
    small = insert_work(conn, kind, announce_at=LONG_AGO + timedelta(days=1))

    announced = _announce_fairly(conn, kind)

    assert small in {row.id for row in announced}
    assert len(announced) == 10


def test_tenants_take_turns(conn, kind):
    owners = {}
    for _ in range(3):
        tenant_id = insert_tenant(conn)
        ids = insert_works(conn, kind, count=20, tenant_id=tenant_id)
        owners |= dict.fromkeys(ids, tenant_id)

    announced = _announce_fairly(conn, kind, limit=9)

    served = [owners[row.id] for row in announced]
    assert {served.count(tenant_id) for tenant_id in served} == {3}


def test_the_tenants_before_the_starting_point_have_their_turn_too(conn, kind):
    tenant_ids = sorted(insert_tenant(conn) for _ in range(3))
    ids = [insert_work(conn, kind, tenant_id=tenant_id) for tenant_id in tenant_ids]

    announced = _announce_fairly(conn, kind, after=tenant_ids[-1])

    assert {row.id for row in announced} == set(ids)


def test_two_fair_announcers_never_share_a_row(conn, other_conn, kind):
    insert_works(conn, kind, count=10)

    with conn.transaction():
        first = _announce_fairly(conn, kind, limit=5)
        second = _announce_fairly(other_conn, kind)

    assert len(first) == len(second) == 5
    assert not {row.id for row in first} & {row.id for row in second}


def test_an_announcement_that_was_not_confirmed_is_taken_back(conn, kind):
    id = insert_work(conn, kind)
    announced = _announce(conn, kind)

    assert unannounce(conn, announced) == announced

    assert row_of(conn, kind, id)["announcements"] == 0
    assert [row.id for row in _announce(conn, kind)] == [id]


def test_announcements_of_both_tables_are_taken_back_each_in_its_own(conn, kind, other_kind):
    mine = insert_work(conn, kind)
    insert_work(conn, other_kind)
    announced = _announce(conn, kind) + _announce(conn, other_kind)

    assert len(unannounce(conn, announced)) == 2
    assert row_of(conn, kind, mine)["announcements"] == 0
    assert len(_announce(conn, other_kind)) == 1


def test_an_announcement_is_not_taken_back_from_another_token(conn, kind):
    id = insert_work(conn, kind)
    (announced,) = _announce(conn, kind)
    at = _announce_at(conn, kind, id)

    assert unannounce(conn, [replace(announced, token=FIRST)]) == []
    assert _announce_at(conn, kind, id) == at


def test_the_next_announcement_is_the_earliest_of_all_that_is_pending(conn, kind, other_kind):
    assert next_announcement_at(conn) is None

    insert_work(conn, kind, announce_at=FAR_OFF)
    insert_work(conn, kind, status="held")
    assert next_announcement_at(conn) == FAR_OFF

    insert_work(conn, other_kind, announce_at=FAR_OFF - timedelta(days=1), urgent=True)
    assert next_announcement_at(conn) == FAR_OFF - timedelta(days=1)


def test_how_long_each_table_waits_is_told_where_something_does(conn, kind, other_kind):
    assert list_waits(conn) == []

    insert_work(conn, kind)
    insert_work(conn, kind, announce_at=FAR_OFF)
    insert_work(conn, kind, status="held", urgent=True)
    insert_work(conn, other_kind, announce_at=FAR_OFF, urgent=True)

    waits = {(wait.kind, wait.urgent): wait.seconds for wait in list_waits(conn)}
    assert waits.keys() == {(kind, False), (other_kind, True)}
    assert waits[kind, False] <= (LONG_AGO - server_now(conn)).total_seconds() + 60
    until = (FAR_OFF - server_now(conn)).total_seconds()
    assert until <= waits[other_kind, True] <= until + 60


def test_due_rows_of_both_tables_are_counted_up_to_the_limit(conn, kind, other_kind):
    insert_works(conn, kind, count=3)
    insert_works(conn, kind, count=2, urgent=True)
    insert_work(conn, other_kind)
    insert_work(conn, kind, announce_at=FAR_OFF)

    assert count_due(conn, limit=100) == 6
    assert count_due(conn, limit=3) == 3


def test_those_of_the_due_that_were_announced_before_are_counted(conn, kind, other_kind):
    insert_works(conn, kind, count=2, announcements=1)
    insert_work(conn, other_kind, announcements=3, urgent=True)
    insert_work(conn, other_kind)
    insert_work(conn, kind, announcements=1, announce_at=FAR_OFF)

    assert count_overdue(conn, limit=100) == {kind: 2, other_kind: 1}


def test_what_workers_hold_of_both_tables_is_counted(conn, kind, other_kind):
    insert_works(conn, kind, count=2, status="held")
    insert_work(conn, other_kind, status="held")
    insert_work(conn, kind)

    assert count_running(conn) == 3
