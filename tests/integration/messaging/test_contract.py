"""What every transport keeps. Each test here runs over RabbitMQ and over PostgreSQL."""

import threading
from datetime import timedelta

import pytest

from tests.builders_db import FAR_OFF, LONG_AGO, insert_runs, insert_table

# Long enough never to pass: a wait that does not end shows as a test that hangs.
_LONG = 600.0
# Long enough for what is on its way to arrive, when nothing must.
_SHORT = 0.5
_LATER = LONG_AGO + timedelta(days=1)


def _ids(runs):
    return sorted(run.id for run in runs)


def _receive(consumer, *, count, free=4):
    received = []
    while len(received) < count:
        received += consumer.receive(free=free, timeout=_LONG)
    return received


def test_everything_announced_is_received_once_and_held(transport, open_claims, conn):
    ids = insert_runs(conn, count=50) + insert_runs(conn, count=7, urgent=True)
    claims = open_claims()
    consumer = transport.open_consumer(claims)

    transport.announce()
    received = _receive(consumer, count=57)

    assert _ids(received) == ids
    held = conn.execute("SELECT id FROM trigger_run WHERE status = 'running' ORDER BY id")
    assert [id for (id,) in held] == ids
    assert consumer.receive(free=4, timeout=_SHORT) == []


@pytest.mark.parametrize("free", [1, 3])
def test_no_more_is_claimed_than_twice_the_free_threads(transport, open_claims, conn, free):
    insert_runs(conn, count=20)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = _receive(consumer, count=1, free=free)

    assert 1 <= len(received) <= 2 * free
    count = conn.execute("SELECT count(*) FROM trigger_run WHERE status = 'running'").fetchone()
    assert count == (len(received),)


def test_what_one_claim_left_comes_with_the_next(transport, open_claims, conn):
    ids = insert_runs(conn, count=20)
    consumer = transport.open_consumer(open_claims())

    transport.announce()

    assert _ids(_receive(consumer, count=20, free=1)) == ids


def test_a_burst_of_scheduled_work_does_not_stand_in_front_of_what_is_urgent(
    transport, open_claims, conn
):
    insert_runs(conn, count=200)
    (urgent,) = insert_runs(conn, count=1, urgent=True, announce_at=_LATER, next_attempt_at=_LATER)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = [run for _ in range(2) for run in consumer.receive(free=4, timeout=_LONG)]

    assert urgent in _ids(received)


def test_what_is_urgent_does_not_keep_scheduled_work_from_its_turn(transport, open_claims, conn):
    insert_runs(conn, count=200, urgent=True)
    (scheduled,) = insert_runs(conn, count=1, announce_at=_LATER, next_attempt_at=_LATER)
    consumer = transport.open_consumer(open_claims())

    transport.announce()
    received = [run for _ in range(2) for run in consumer.receive(free=4, timeout=_LONG)]

    assert scheduled in _ids(received)


def test_announcing_twice_makes_no_second_start(transport, open_claims, conn):
    ids = insert_runs(conn, count=10)
    transport.announce()
    conn.execute("UPDATE trigger_run SET announce_at = clock_timestamp()")
    transport.announce()
    consumer = transport.open_consumer(open_claims())

    received = _receive(consumer, count=10)

    assert _ids(received) == ids
    assert consumer.receive(free=4, timeout=_SHORT) == []
    assert conn.execute("SELECT DISTINCT starts FROM trigger_run").fetchall() == [(1,)]


def test_a_reference_to_a_row_that_is_gone_does_no_harm(transport, open_claims, conn):
    insert_runs(conn, count=10)
    transport.announce()
    conn.execute("DELETE FROM trigger_run")
    ids = insert_runs(conn, count=1)
    transport.announce()
    consumer = transport.open_consumer(open_claims())

    assert _ids(_receive(consumer, count=1)) == ids


def test_a_row_is_not_received_before_its_time(transport, open_claims, conn):
    table = insert_table(conn)
    insert_runs(conn, table, count=1, announce_at=FAR_OFF, next_attempt_at=FAR_OFF)
    ids = insert_runs(conn, table, count=1)
    consumer = transport.open_consumer(open_claims())

    transport.announce()

    assert _ids(_receive(consumer, count=1)) == ids
    assert consumer.receive(free=4, timeout=_SHORT) == []


def test_two_consumers_share_what_there_is(transport, open_claims, conn):
    ids = insert_runs(conn, count=40)
    one, two = (transport.open_consumer(open_claims()) for _ in range(2))

    transport.announce()
    first, second = _receive(one, count=1), _receive(two, count=1)
    while len(first) + len(second) < 40:
        first += one.receive(free=4, timeout=_SHORT)
        second += two.receive(free=4, timeout=_SHORT)

    assert _ids(first + second) == ids
    assert not set(_ids(first)) & set(_ids(second))


def test_a_failed_claim_loses_nothing(transport, open_claims, conn):
    ids = insert_runs(conn, count=10)
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


def test_a_stopped_consumer_gives_back_what_it_had_not_claimed(transport, open_claims, conn):
    ids = insert_runs(conn, count=40)
    first = transport.open_consumer(open_claims(), threads=40)
    transport.announce()
    received = _receive(first, count=1)

    first.stop()
    second = transport.open_consumer(open_claims())
    received += _receive(second, count=40 - len(received))

    assert _ids(received) == ids


def test_a_cut_connection_loses_nothing(transport, open_claims, conn):
    ids = insert_runs(conn, count=40)
    consumer = transport.open_consumer(open_claims(), threads=40)
    transport.announce()
    received = _receive(consumer, count=1, free=1)

    transport.cut()
    received += _receive(consumer, count=40 - len(received))

    assert _ids(received) == ids
