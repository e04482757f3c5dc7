from datetime import timedelta
from uuid import UUID

import pytest

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.queries.announcements import (
    announce_batch,
    announce_batch_fairly,
    count_due,
    count_running,
    next_announcement_at,
    unannounce,
)
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    insert_run,
    insert_runs,
    insert_table,
    insert_tenant,
    row_of,
)

FIRST = UUID(int=0)


def _announce_at(conn, run_id):
    return conn.execute("SELECT announce_at FROM trigger_run WHERE id = %s", [run_id]).fetchone()[0]


def test_two_announcers_never_share_a_run(conn, other_conn):
    insert_runs(conn, count=10)

    with conn.transaction():
        first = announce_batch(conn, urgent=False, limit=5)
        second = announce_batch(other_conn, urgent=False, limit=5)

    assert len(first) == len(second) == 5
    assert not {run.id for run in first} & {run.id for run in second}


def test_the_oldest_are_announced_first(conn):
    table = insert_table(conn)
    late, early = (
        insert_run(conn, table, announce_at=LONG_AGO + timedelta(days=days)) for days in (1, 0)
    )

    assert [run.id for run in announce_batch(conn, urgent=False, limit=1)] == [early]
    assert [run.id for run in announce_batch(conn, urgent=False, limit=1)] == [late]


@pytest.mark.parametrize("urgent", [True, False])
def test_what_is_urgent_and_what_is_not_are_announced_apart(conn, urgent):
    table = insert_table(conn)
    mine = insert_run(conn, table, urgent=urgent)
    insert_run(conn, table, urgent=not urgent)

    (announced,) = announce_batch(conn, urgent=urgent, limit=10)

    assert announced.id == mine
    assert announce_batch_fairly(conn, urgent=urgent, limit=10, after=FIRST) == []
    assert len(announce_batch_fairly(conn, urgent=not urgent, limit=10, after=FIRST)) == 1


def test_an_announcement_keeps_the_token_and_counts(conn):
    run_id = insert_run(conn, worker_losses=2, urgent=True)
    token = row_of(conn, "trigger_run", run_id)["lease_token"]

    (announced,) = announce_batch(conn, urgent=True, limit=10)

    assert (str(announced.token), announced.urgent) == (token, True)
    assert (announced.worker_losses, announced.announcements) == (2, 1)


@pytest.mark.parametrize(
    ("before", "seconds"), [(0, 60), (1, 120), (2, 240), (3, 480), (4, 600), (40, 600)]
)
def test_it_is_announced_again_after_a_growing_time(conn, before, seconds):
    run_id = insert_run(conn, announcements=before)
    started_at = server_now(conn)

    announce_batch(conn, urgent=False, limit=1)

    interval = timedelta(seconds=seconds)
    assert started_at + interval <= _announce_at(conn, run_id) <= server_now(conn) + interval


def test_what_is_not_due_or_not_pending_is_not_announced(conn):
    table = insert_table(conn)
    insert_run(conn, table, announce_at=FAR_OFF)
    for status in ("running", "done", "failed"):
        insert_run(conn, table, status=status)

    assert announce_batch(conn, urgent=False, limit=10) == []
    assert announce_batch_fairly(conn, urgent=False, limit=10, after=FIRST) == []


def test_a_small_tenant_is_announced_beside_a_flood(conn):
    insert_runs(conn, count=100)
    small = insert_run(conn, announce_at=LONG_AGO + timedelta(days=1))

    announced = announce_batch_fairly(conn, urgent=False, limit=10, after=FIRST)

    assert small in {run.id for run in announced}
    assert len(announced) == 10


def test_tenants_take_turns(conn):
    owners = {}
    for _ in range(3):
        table = insert_table(conn)
        owners |= dict.fromkeys(insert_runs(conn, table, count=20), table.tenant_id)

    announced = announce_batch_fairly(conn, urgent=False, limit=9, after=FIRST)

    served = [owners[run.id] for run in announced]
    assert {served.count(tenant_id) for tenant_id in served} == {3}


def test_the_tenants_before_the_starting_point_have_their_turn_too(conn):
    tenant_ids = sorted(insert_tenant(conn) for _ in range(3))
    runs = [insert_run(conn, insert_table(conn, tenant_id=tenant)) for tenant in tenant_ids]

    announced = announce_batch_fairly(conn, urgent=False, limit=10, after=tenant_ids[-1])

    assert {run.id for run in announced} == set(runs)


def test_two_fair_announcers_never_share_a_run(conn, other_conn):
    insert_runs(conn, count=10)

    with conn.transaction():
        first = announce_batch_fairly(conn, urgent=False, limit=5, after=FIRST)
        second = announce_batch_fairly(other_conn, urgent=False, limit=10, after=FIRST)

    assert len(first) == len(second) == 5
    assert not {run.id for run in first} & {run.id for run in second}


def test_an_announcement_that_was_not_confirmed_is_taken_back(conn):
    run_id = insert_run(conn)
    announced = announce_batch(conn, urgent=False, limit=1)

    assert unannounce(conn, announced) == [run_id]

    assert row_of(conn, "trigger_run", run_id)["announcements"] == 0
    assert [run.id for run in announce_batch(conn, urgent=False, limit=1)] == [run_id]


def test_an_announcement_is_not_taken_back_from_another_token(conn):
    run_id = insert_run(conn, announcements=1, announce_at=FAR_OFF)

    assert unannounce(conn, [Reference(id=run_id, token=FIRST)]) == []
    assert _announce_at(conn, run_id) == FAR_OFF


def test_the_next_announcement_is_the_earliest_of_the_pending(conn):
    assert next_announcement_at(conn) is None

    table = insert_table(conn)
    insert_run(conn, table, announce_at=FAR_OFF)
    insert_run(conn, table, announce_at=FAR_OFF - timedelta(days=1), urgent=True)
    insert_run(conn, table, status="running")

    assert next_announcement_at(conn) == FAR_OFF - timedelta(days=1)


def test_due_runs_are_counted_up_to_the_limit(conn):
    table = insert_table(conn)
    insert_runs(conn, table, count=3)
    insert_runs(conn, table, count=2, urgent=True)
    insert_run(conn, table, announce_at=FAR_OFF)

    assert count_due(conn, limit=100) == 5
    assert count_due(conn, limit=3) == 3


def test_running_runs_are_counted(conn):
    table = insert_table(conn)
    insert_runs(conn, table, count=2, status="running")
    insert_run(conn, table)

    assert count_running(conn) == 2
