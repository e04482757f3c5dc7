"""Offering due work to a real broker, from a real table."""

from typing import get_args
from uuid import UUID

import pika
import pytest
from psycopg.errors import CheckViolation
from psycopg.sql import SQL, Identifier

from shared.db.connection import connect
from shared.domain.work import Announced, WorkKind
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.queries.notifications import listen_for_work
from shared.queries.workers import hold_liveness
from shared.usecases.announce import Announcer, recover
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    insert_runs,
    insert_table,
    insert_worker,
    row_of,
)
from tests.builders_staged import insert_change
from tests.builders_work import insert_works

FIRE_BATCH = 10
KINDS = get_args(WorkKind)
BATCHES = {"batch_size": 500, "fire_batch": FIRE_BATCH}


@pytest.fixture
def publisher(rabbit_url):
    publisher = AmqpPublisher(rabbit_url, fire_batch=FIRE_BATCH)
    assert wait_until(publisher.ready, seconds=30)
    yield publisher
    publisher.close()


@pytest.fixture
def announcer(publisher):
    return Announcer(publisher, **BATCHES, high_water=100)


@pytest.fixture
def channel(rabbit_url, publisher):
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    yield connection.channel()
    connection.close()


@pytest.fixture
def take_messages(channel):
    """Takes all messages, as workers do that claim what they refer to."""
    return lambda: channel.queue_purge(topology.FIRE)


@pytest.fixture
def living_worker(conn, database_url):
    """A worker of 20 threads that lives until the test ends."""
    with connect(database_url, application_name="worker") as session:
        worker_id = insert_worker(conn, threads=20)
        assert hold_liveness(session, worker_id)
        yield worker_id


def _announcements(conn, kind):
    statement = SQL("SELECT count(*) FROM {} WHERE announcements > 0").format(Identifier(kind))
    return conn.execute(statement).fetchone()[0]


def _announced(conn):
    rows = conn.execute("SELECT id FROM trigger_run WHERE announcements > 0 ORDER BY id")
    return [id for (id,) in rows]


def test_due_runs_are_marked_and_published(conn, announcer, publisher, living_worker):
    ids = insert_runs(conn, count=13) + insert_runs(conn, count=2, urgent=True)
    insert_runs(conn, count=1, announce_at=FAR_OFF)

    assert announcer.announce(conn) == 15

    assert _announced(conn) == ids
    depths = publisher.depths()
    assert depths[topology.FIRE] == 2
    assert depths[topology.EXECUTE] == 1
    assert announcer.announce(conn) == 0


def test_both_kinds_share_the_room_of_a_queue_each_in_turn_first(
    conn, announcer, living_worker, take_messages
):
    for kind in KINDS:
        insert_works(conn, kind, count=100)
    announced = []

    for _ in range(2):
        assert announcer.announce(conn) == 40
        announced.append({kind: _announcements(conn, kind) for kind in KINDS})
        take_messages()

    first, second = announced
    assert sorted(first.values()) == [0, 40]
    assert set(second.values()) == {40}


def test_a_kind_takes_the_room_that_the_other_leaves(conn, announcer, publisher, living_worker):
    insert_works(conn, "trigger_run", count=7)
    insert_works(conn, "scheduled_action", count=5)
    insert_works(conn, "scheduled_action", count=3, urgent=True)

    assert announcer.announce(conn) == 15

    depths = publisher.depths()
    assert (depths[topology.FIRE], depths[topology.EXECUTE]) == (2, 1)


def test_no_worker_lives_and_all_waits_in_the_table(conn, announcer, publisher):
    insert_runs(conn, count=3)

    assert announcer.announce(conn) == 0

    assert _announced(conn) == []
    assert publisher.depths()[topology.FIRE] == 0


def test_what_no_living_worker_consumes_waits_in_the_table(
    conn, announcer, publisher, living_worker
):
    conn.execute("UPDATE worker SET roles = '{trigger-worker}'")
    ids = insert_runs(conn, count=3)
    insert_runs(conn, count=2, urgent=True)

    assert announcer.announce(conn) == 3

    assert _announced(conn) == ids
    assert publisher.depths()[topology.EXECUTE] == 0


def test_each_queue_has_room_for_the_threads_of_its_own_workers(
    conn, other_conn, announcer, publisher, living_worker
):
    conn.execute("UPDATE worker SET roles = '{trigger-worker}'")
    hold_liveness(other_conn, insert_worker(conn, threads=30, roles=["action-worker"]))
    insert_runs(conn, count=80)
    insert_runs(conn, count=80, urgent=True)

    assert announcer.announce(conn) == 40 + 60

    depths = publisher.depths()
    assert (depths[topology.FIRE], depths[topology.EXECUTE]) == (4, 6)


def test_unclaimed_references_stay_below_what_workers_soon_take(
    conn, announcer, publisher, living_worker
):
    insert_runs(conn, count=60)

    assert announcer.room(conn) == 40
    assert announcer.announce(conn) == 40
    assert announcer.announce(conn) == 0

    assert len(_announced(conn)) == 40


def test_a_full_queue_of_scheduled_work_leaves_room_for_what_is_urgent(
    conn, announcer, publisher, living_worker
):
    insert_runs(conn, count=60)
    announcer.announce(conn)
    soon = insert_runs(conn, count=3, urgent=True)

    assert announcer.announce(conn) == 3

    assert set(soon) <= set(_announced(conn))
    assert publisher.depths()[topology.EXECUTE] == 1


def test_unclaimed_references_stay_below_the_high_water(conn, publisher, living_worker):
    insert_runs(conn, count=60)
    announcer = Announcer(publisher, **BATCHES, high_water=30)

    assert announcer.announce(conn) == 30
    assert announcer.announce(conn) == 0


def test_no_more_than_a_batch_is_announced_at_once_for_a_queue(conn, publisher, living_worker):
    insert_runs(conn, count=20)
    insert_runs(conn, count=20, urgent=True)
    announcer = Announcer(publisher, batch_size=15, fire_batch=FIRE_BATCH, high_water=100)

    assert [announcer.announce(conn) for _ in range(2)] == [30, 10]


def test_workers_that_claim_fast_are_given_more(
    conn, announcer, publisher, living_worker, take_messages
):
    insert_runs(conn, count=150)

    assert announcer.announce(conn) == 40
    take_messages()
    assert announcer.announce(conn) == 40
    take_messages()
    assert announcer.announce(conn) == 70  # all that is left, below the 80 claimed in 5 s


def test_a_backlog_serves_every_tenant(conn, announcer, living_worker, take_messages):
    insert_runs(conn, count=90)
    (late,) = insert_runs(conn, count=1)

    announcer.announce(conn)
    assert late not in _announced(conn)
    take_messages()
    announcer.announce(conn)

    assert late in _announced(conn)


def test_what_the_broker_does_not_confirm_is_due_again_at_once(
    conn, announcer, publisher, living_worker, channel
):
    announcer.announce(conn)  # declares what the next step takes away
    channel.queue_delete(topology.EXECUTE)
    late = insert_runs(conn, count=3)
    soon = insert_runs(conn, count=2, urgent=True)
    unroutable = _WithoutDepths(publisher)

    confirmed = Announcer(unroutable, **BATCHES, high_water=100).announce(conn)

    assert confirmed == 3
    assert _announced(conn) == late
    due = conn.execute(
        "SELECT id FROM trigger_run WHERE announce_at <= clock_timestamp() ORDER BY id"
    )
    assert [id for (id,) in due] == soon


class _WithoutDepths:
    """A publisher that does not look at the queues, and so sends to one that was deleted."""

    def __init__(self, publisher):
        self.ready, self.publish = publisher.ready, publisher.publish

    def depths(self):
        return dict.fromkeys(topology.WORK_QUEUES, 0)


def test_without_a_broker_nothing_is_marked(conn, living_worker):
    publisher = AmqpPublisher("amqp://nobody:nothing@127.0.0.1:1/none", fire_batch=FIRE_BATCH)
    announcer = Announcer(publisher, **BATCHES, high_water=100)
    insert_runs(conn, count=3)

    assert announcer.room(conn) == 0
    assert announcer.announce(conn) == 0

    assert _announced(conn) == []
    publisher.close()


def test_rows_born_announced_are_published_as_they_are(conn, announcer, publisher, living_worker):
    ids = insert_runs(conn, count=5, announce_at=FAR_OFF, announcements=1)
    rows = [_as_announced(conn, id) for id in ids]

    assert announcer.publish(conn, rows) == 5

    assert publisher.depths()[topology.FIRE] == 1
    assert announcer.publish(conn, []) == 0


def _as_announced(conn, id):
    row = row_of(conn, "trigger_run", id)
    return Announced(
        kind="trigger_run",
        id=id,
        token=UUID(row["lease_token"]),
        urgent=False,
        worker_losses=0,
        announcements=1,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_worker_that_is_gone_are_taken_back(conn, living_worker, kind):
    over = insert_works(conn, kind, count=1200, status="held", leased_until=LONG_AGO)
    (held,) = insert_works(conn, kind, count=1, status="held", worker_id=living_worker)

    assert recover(conn) == dict.fromkeys(KINDS, 0) | {kind: 1200}
    assert recover(conn) == dict.fromkeys(KINDS, 0)

    assert row_of(conn, kind, over[0])["status"] == "pending"
    assert row_of(conn, kind, held)["worker_id"] == living_worker


def test_a_table_that_cannot_be_swept_does_not_keep_the_other_from_it(conn):
    insert_works(conn, "trigger_run", count=1, status="held", leased_until=LONG_AGO)
    (action,) = insert_works(
        conn, "scheduled_action", count=1, status="held", leased_until=LONG_AGO
    )
    conn.execute("ALTER TABLE trigger_run ADD CHECK (worker_losses = 0)")

    with pytest.raises(CheckViolation):
        recover(conn)

    assert row_of(conn, "scheduled_action", action)["status"] == "pending"


def test_what_is_taken_back_is_told_to_those_who_wait(conn, other_conn):
    listen_for_work(other_conn)
    insert_runs(conn, count=1, status="running", leased_until=LONG_AGO)

    recover(conn)
    recover(conn)

    assert [one.channel for one in other_conn.notifies(timeout=5, stop_after=1)] == ["duebook_work"]
    assert list(other_conn.notifies(timeout=0)) == []


def test_approved_changes_are_urgent_and_share_the_room_with_runs(
    conn, announcer, publisher, channel, living_worker
):
    insert_works(conn, "trigger_run", count=60, urgent=True)
    table = insert_table(conn)
    for _ in range(60):
        insert_change(conn, table, status="approved")
    insert_change(conn, table)

    for _ in range(2):
        assert announcer.announce(conn) == 40
        assert publisher.depths()[topology.FIRE] == 0
        channel.queue_purge(topology.EXECUTE)

    assert {_announcements(conn, kind) for kind in ("trigger_run", "staged_change")} == {40}


def test_a_change_that_the_broker_did_not_confirm_is_due_again_at_once(
    conn, announcer, publisher, channel, living_worker
):
    announcer.announce(conn)  # declares what the next step takes away
    channel.queue_delete(topology.EXECUTE)
    change = insert_change(conn, status="approved")

    assert Announcer(_WithoutDepths(publisher), **BATCHES, high_water=100).announce(conn) == 0

    assert row_of(conn, "staged_change", change)["announcements"] == 0
    assert wait_until(lambda: announcer.announce(conn) == 1, seconds=30)
    assert row_of(conn, "staged_change", change)["announcements"] == 1
