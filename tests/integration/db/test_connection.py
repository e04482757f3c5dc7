from datetime import UTC, datetime

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from shared.db.connection import connect, open_pool


def _setting(conn, name):
    return conn.execute("SELECT current_setting(%s)", [name]).fetchone()[0]


def test_a_session_has_the_houses_limits(conn):
    names = (
        "TimeZone",
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "client_connection_check_interval",
        "application_name",
    )

    assert conn.autocommit
    assert [_setting(conn, name) for name in names] == ["UTC", "30s", "3s", "15s", "2s", "test"]


def test_a_silent_network_is_noticed_on_both_sides(conn):
    parameters = conn.info.get_parameters()

    assert parameters["keepalives_idle"] == "10"
    assert parameters["keepalives_interval"] == "5"
    assert parameters["keepalives_count"] == "3"
    assert parameters["tcp_user_timeout"] == "20000"
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
    assert [_setting(conn, name) for name in names] == ["10", "5", "3"]


def test_a_session_with_a_server_that_says_nothing_is_given_up(proxy):
    with connect(proxy.url, application_name="test") as conn:
        assert conn.patience_seconds > 30
        conn.patience_seconds = 0.2
        proxy.be_silent()

        with pytest.raises(psycopg.OperationalError, match="has not answered"):
            conn.execute("SELECT 1")

        assert conn.closed


def test_a_statement_without_a_limit_may_take_its_time(database_url):
    with connect(database_url, application_name="test", statement_seconds=0) as conn:
        assert conn.patience_seconds is None


def test_a_pool_replaces_a_session_whose_server_says_nothing(proxy, monkeypatch):
    monkeypatch.setattr("shared.db.connection._SILENT_SECONDS", 0.2)
    monkeypatch.setattr("shared.db.connection._FRESH_SECONDS", 0.0)
    with open_pool(proxy.url, application_name="pooled", size=1) as pool:
        with pool.connection() as lost:
            backend = lost.info.backend_pid
        proxy.forget()

        with pool.connection() as fresh:
            assert fresh.info.backend_pid != backend


def test_options_of_the_url_are_kept(database_url):
    with connect(f"{database_url}?options=-c%20work_mem%3D8MB", application_name="test") as conn:
        assert _setting(conn, "work_mem") == "8MB"
        assert _setting(conn, "TimeZone") == "UTC"


def test_instants_come_back_in_utc(conn):
    row = conn.execute("SELECT timestamptz '2026-07-01 12:00+02'").fetchone()

    assert row[0] == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert row[0].isoformat() == "2026-07-01T10:00:00+00:00"


def test_a_session_that_waits_for_a_lock_gives_up(conn, database_url):
    conn.execute("CREATE TABLE waited_for (id int)")
    with (
        connect(database_url, application_name="impatient", lock_seconds=1) as other,
        conn.transaction(),
    ):
        conn.execute("LOCK TABLE waited_for")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("SELECT FROM waited_for")


def test_a_pool_hands_out_sessions_with_the_same_limits(database_url):
    with (
        open_pool(database_url, application_name="pooled", size=2) as pool,
        pool.connection() as first,
        pool.connection() as second,
    ):
        assert first.autocommit
        assert _setting(second, "lock_timeout") == "3s"
        assert _setting(second, "application_name") == "pooled"


def test_a_pool_replaces_a_session_that_the_server_ended(conn, database_url):
    with open_pool(database_url, application_name="pooled", size=1) as pool:
        with pool.connection() as lost:
            backend = lost.info.backend_pid
        conn.execute("SELECT pg_terminate_backend(%s, 30000)", [backend])  # waits for its end

        with pool.connection() as fresh:
            assert fresh.info.backend_pid != backend
            assert fresh.execute("SELECT 1").fetchone() == (1,)


def test_a_pool_without_a_database_says_so(unused_port):
    url = f"postgresql://nobody@127.0.0.1:{unused_port}/nothing"
    with (
        open_pool(url, application_name="pooled", size=1) as pool,
        pytest.raises(PoolTimeout),
        pool.connection(timeout=0.2),
    ):
        pass
