import psycopg
import pytest

from shared.db.connection import connect
from shared.db.listener import Listener
from shared.lifecycle import Stop

# Long enough never to pass: a wait that does not end shows as a test that hangs.
_LONG = 600.0


@pytest.fixture
def listener(database_url):
    def open_session():
        session = connect(database_url, application_name="listener")
        session.execute("LISTEN work")
        return session

    listener = Listener(open_session)
    yield listener
    listener.close()


@pytest.fixture
def stop():
    return Stop()


def test_before_a_new_session_anything_may_have_been_said(listener, stop):
    assert listener.wait(_LONG, wake=stop) is True


def test_notifications_end_the_wait_and_count_as_one(listener, stop, conn):
    listener.wait(0, wake=stop)

    with conn.transaction():
        conn.execute("NOTIFY work, 'one'")
        conn.execute("NOTIFY work, 'two'")

    assert listener.wait(_LONG, wake=stop) is True
    assert listener.wait(0, wake=stop) is False


def test_a_stop_ends_the_wait(listener, stop):
    listener.wait(0, wake=stop)

    stop.request()

    assert listener.wait(_LONG, wake=stop) is False


def _wait_for_ever(listener, stop):
    # Once is not enough: the server's last word may come before the end of the connection does.
    while True:
        listener.wait(_LONG, wake=stop)


def test_a_lost_session_is_told_and_replaced(listener, stop, conn):
    listener.wait(0, wake=stop)
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listener'"
    )

    with pytest.raises(psycopg.OperationalError):
        _wait_for_ever(listener, stop)

    assert listener.wait(_LONG, wake=stop) is True


def test_a_quiet_session_whose_server_says_nothing_is_told(proxy, stop, monkeypatch):
    monkeypatch.setattr("shared.db.listener._QUIET_SECONDS", 0.0)
    listener = Listener(lambda: connect(proxy.url, application_name="listener"))
    listener.wait(0, wake=stop)
    assert listener.wait(0, wake=stop) is False
    monkeypatch.setattr("shared.db.connection._SILENT_SECONDS", 0.2)
    proxy.be_silent()

    with pytest.raises(psycopg.OperationalError):
        listener.wait(0, wake=stop)
