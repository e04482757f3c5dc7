"""References to approved changes, over RabbitMQ and over PostgreSQL: as work, but for claims."""

from datetime import timedelta

import pytest

from tests.builders_db import FAR_OFF, LONG_AGO, insert_table, update_all
from tests.builders_staged import insert_change
from tests.builders_work import insert_work, insert_works

_LONG = 600.0
_SHORT = 0.5
_LATER = LONG_AGO + timedelta(days=1)


def _ids(rows):
    return sorted(row.id for row in rows)


def _receive(consumer, *, count, free=4):
    received = []
    while len(received) < count:
        received += consumer.receive(free=free, timeout=_LONG)
    return received


@pytest.fixture
def insert_approved(conn):
    table = insert_table(conn, approval="required")

    def insert_approved(count=1, **more):
        return [insert_change(conn, table, status="approved", **more) for _ in range(count)]

    return insert_approved


def test_every_approved_change_is_received_once(transport, open_claims, insert_approved, conn):
    ids = insert_approved(30)
    for status in ("pending", "rejected", "applied", "failed"):
        insert_change(conn, status=status)
    insert_approved(announce_at=FAR_OFF)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = _receive(consumer, count=30, free=3)

    assert _ids(received) == ids
    assert {row.work_kind for row in received} == {"staged_change"}
    assert consumer.receive(free=4, timeout=_SHORT) == []


def test_a_change_that_ended_meanwhile_is_not_received(
    transport, open_claims, insert_approved, conn
):
    insert_approved(5)
    transport.announce()
    update_all(
        conn, "staged_change", status="failed", error="e", finished_at=_LATER, announce_at=None
    )
    (left,) = insert_approved()
    transport.announce()
    consumer = transport.open_consumer(open_claims())

    assert _ids(_receive(consumer, count=1)) == [left]
    assert consumer.receive(free=4, timeout=_SHORT) == []


def test_what_was_received_and_not_applied_comes_again_by_its_age(
    transport, open_claims, insert_approved, conn
):
    ids = insert_approved(5)
    consumer = transport.open_consumer(open_claims())
    transport.announce()
    assert _ids(_receive(consumer, count=5)) == ids

    update_all(conn, "staged_change", announce_at=LONG_AGO)
    transport.announce()

    assert _ids(_receive(consumer, count=5)) == ids


def test_without_a_broker_neither_a_burst_of_changes_nor_of_work_keeps_the_other_from_its_turn(
    postgres, open_claims, insert_approved, conn
):
    insert_works(conn, "trigger_run", count=100, urgent=True)
    insert_works(conn, "scheduled_action", count=100)
    insert_approved(100)
    late = {"announce_at": _LATER, "next_attempt_at": _LATER}
    action = insert_work(conn, "scheduled_action", urgent=True, **late)
    consumer = postgres.open_consumer(open_claims())

    received = [row for _ in range(6) for row in consumer.receive(free=4, timeout=_LONG)]

    kinds = {row.work_kind for row in received}
    assert kinds == {"trigger_run", "scheduled_action", "staged_change"}
    assert action in _ids(row for row in received if row.work_kind == "scheduled_action")


def test_a_failed_look_loses_no_change(transport, open_claims, insert_approved):
    ids = insert_approved(6)
    claims = open_claims()
    claims.failures = 1
    consumer = transport.open_consumer(claims)

    transport.announce()
    with pytest.raises(ConnectionError):
        consumer.receive(free=4, timeout=_LONG)

    assert _ids(_receive(consumer, count=6)) == ids
