import socket

import pytest

from services.api.server import ARRIVAL_SECONDS, Arrivals


@pytest.fixture
def connection():
    """Our end of a connection, and the client's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_takes_too_long_to_arrive_reads_as_cut_off_and_can_be_answered(connection):
    ours, theirs = connection
    arrivals = Arrivals()
    arrivals.begin(ours, now=100.0)
    theirs.send(b"half a requ")

    arrivals.end_overdue(now=100.0 + ARRIVAL_SECONDS)

    assert ours.recv(100) == b"half a requ"
    assert ours.recv(100) == b""
    ours.send(b"answer")
    assert theirs.recv(100) == b"answer"


def test_what_is_in_time_or_done_is_left_alone(connection):
    ours, theirs = connection
    arrivals = Arrivals()
    arrivals.begin(ours, now=100.0)
    arrivals.end_overdue(now=100.0 + ARRIVAL_SECONDS - 1)
    arrivals.end(ours)

    arrivals.end_overdue(now=1000.0)

    theirs.send(b"more")
    assert ours.recv(100) == b"more"


def test_a_connection_that_is_gone_disturbs_nobody(connection):
    ours, _ = connection
    arrivals = Arrivals()
    arrivals.begin(ours, now=0.0)
    ours.close()

    arrivals.end_overdue(now=1000.0)
