"""What every transport keeps. Each test here runs over RabbitMQ and over PostgreSQL."""

import threading
from datetime import timedelta

import pytest

from tests.builders_db import FAR_OFF, LONG_AGO, delete_all, row_of, statuses_of, update_all
from tests.builders_work import insert_works

# Long enough never to pass: a wait that does not end shows as a test that hangs.
_LONG = 600.0
# Long enough for what is on its way to arrive, when nothing must.
_SHORT = 0.5
HELD = {"trigger_run": "running", "scheduled_action": "processing"}
_LATER = LONG_AGO + timedelta(days=1)


def _ids(rows):
    return sorted(row.id for row in rows)


def _receive(consumer, *, count, free=4):
    received = []
    while len(received) < count:
        received += consumer.receive(free=free, timeout=_LONG)
    return received


def test_everything_announced_is_received_once_and_held(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=50) + insert_works(conn, kind, count=7, urgent=True)
    claims = open_claims()
    consumer = transport.open_consumer(claims)

    transport.announce()
    received = _receive(consumer, count=57)

    assert _ids(received) == ids
    assert {row.work_kind for row in received} == {kind}
    assert set(statuses_of(conn, kind)) == {HELD[kind]}
    assert consumer.receive(free=4, timeout=_SHORT) == []


@pytest.mark.parametrize("free", [1, 3])
def test_no_more_is_claimed_than_twice_the_free_threads(transport, open_claims, conn, kind, free):
    insert_works(conn, kind, count=20)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = _receive(consumer, count=1, free=free)

    assert 1 <= len(received) <= 2 * free
    assert statuses_of(conn, kind).count(HELD[kind]) == len(received)


def test_what_one_claim_left_comes_with_the_next(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=20)
    consumer = transport.open_consumer(open_claims())

    transport.announce()

    assert _ids(_receive(consumer, count=20, free=1)) == ids


def test_a_burst_of_scheduled_work_does_not_stand_in_front_of_what_is_urgent(
    transport, open_claims, conn, kind
):
    insert_works(conn, kind, count=200)
    (urgent,) = insert_works(
        conn, kind, count=1, urgent=True, announce_at=_LATER, next_attempt_at=_LATER
    )
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = [row for _ in range(2) for row in consumer.receive(free=4, timeout=_LONG)]

    assert urgent in _ids(received)


def test_what_is_urgent_does_not_keep_scheduled_work_from_its_turn(
    transport, open_claims, conn, kind
):
    insert_works(conn, kind, count=200, urgent=True)
    (scheduled,) = insert_works(conn, kind, count=1, announce_at=_LATER, next_attempt_at=_LATER)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = [row for _ in range(2) for row in consumer.receive(free=4, timeout=_LONG)]

    assert scheduled in _ids(received)


def test_both_kinds_are_received_each_as_what_it_is(transport, open_claims, conn, kind, other_kind):
    ids = insert_works(conn, kind, count=20)
    others = insert_works(conn, other_kind, count=9, urgent=True)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = _receive(consumer, count=29)

    assert _ids(row for row in received if row.work_kind == kind) == ids
    assert _ids(row for row in received if row.work_kind == other_kind) == others
    assert set(statuses_of(conn, kind)) == {HELD[kind]}
    assert set(statuses_of(conn, other_kind)) == {HELD[other_kind]}


@pytest.mark.parametrize("urgent", [True, False])
def test_a_burst_of_one_kind_does_not_keep_the_other_from_its_turn(
    transport, open_claims, conn, kind, other_kind, urgent
):
    insert_works(conn, kind, count=200, urgent=urgent)
    (single,) = insert_works(
        conn, other_kind, count=1, urgent=not urgent, announce_at=_LATER, next_attempt_at=_LATER
    )
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = [row for _ in range(2) for row in consumer.receive(free=4, timeout=_LONG)]

    assert (other_kind, single) in {(row.work_kind, row.id) for row in received}


def test_announcing_twice_makes_no_second_start(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=10)
    transport.announce()
    update_all(conn, kind, announce_at=LONG_AGO)
    transport.announce()
    consumer = transport.open_consumer(open_claims())

    received = _receive(consumer, count=10)

    assert _ids(received) == ids
    assert consumer.receive(free=4, timeout=_SHORT) == []
    assert {row_of(conn, kind, id)["starts"] for id in ids} == {1}


def test_a_reference_to_a_row_that_is_gone_does_no_harm(transport, open_claims, conn, kind):
    insert_works(conn, kind, count=10)
    transport.announce()
    delete_all(conn, kind)
    ids = insert_works(conn, kind, count=1)
    transport.announce()
    consumer = transport.open_consumer(open_claims())

    assert _ids(_receive(consumer, count=1)) == ids


def test_a_row_is_not_received_before_its_time(transport, open_claims, conn, kind):
    insert_works(conn, kind, count=1, announce_at=FAR_OFF, next_attempt_at=FAR_OFF)
    ids = insert_works(conn, kind, count=1)
    consumer = transport.open_consumer(open_claims())

    transport.announce()

    assert _ids(_receive(consumer, count=1)) == ids
    assert consumer.receive(free=4, timeout=_SHORT) == []


def test_two_consumers_share_what_there_is(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=40)
    one, two = (transport.open_consumer(open_claims()) for _ in range(2))

    transport.announce()
    first, second = _receive(one, count=1), _receive(two, count=1)
    while len(first) + len(second) < 40:
        first += one.receive(free=4, timeout=_SHORT)
        second += two.receive(free=4, timeout=_SHORT)

    assert _ids(first + second) == ids
    assert not set(_ids(first)) & set(_ids(second))


def test_a_failed_claim_loses_nothing(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=10)
    claims = open_claims()
    claims.failures = 2
    consumer = transport.open_consumer(claims)

    transport.announce()
    for _ in range(2):
        with pytest.raises(ConnectionError):
            consumer.receive(free=4, timeout=_LONG)

    assert _ids(_receive(consumer, count=10)) == ids


def test_stop_ends_a_waiting_receive(transport, open_claims):
    consumer = transport.open_consumer(open_claims())
    received = []
    waiting = threading.Thread(
        target=lambda: received.append(consumer.receive(free=4, timeout=_LONG))
    )
    waiting.start()

    consumer.stop()
    waiting.join()

    assert received == [[]]
    assert consumer.receive(free=4, timeout=_LONG) == []
    assert not consumer.ready()


def test_a_stopped_consumer_gives_back_what_it_had_not_claimed(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=40)
    first = transport.open_consumer(open_claims(), threads=40)
    transport.announce()
    received = _receive(first, count=1)

    first.stop()
    second = transport.open_consumer(open_claims())
    received += _receive(second, count=40 - len(received))

    assert _ids(received) == ids


def test_a_cut_connection_loses_nothing(transport, open_claims, conn, kind):
    ids = insert_works(conn, kind, count=40)
    consumer = transport.open_consumer(open_claims(), threads=40)
    transport.announce()
    received = _receive(consumer, count=1, free=1)

    transport.cut()
    received += _receive(consumer, count=40 - len(received))

    assert _ids(received) == ids
