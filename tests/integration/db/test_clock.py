from datetime import timedelta

from shared.db.clock import server_now


def test_the_servers_clock_moves_within_a_transaction(conn):
    with conn.transaction():
        first = server_now(conn)
        second = server_now(conn)

    assert first < second


def test_the_servers_clock_is_aware_utc(conn):
    assert server_now(conn).utcoffset() == timedelta(0)


def test_two_sessions_see_one_clock(conn, other_conn):
    before = server_now(conn)
    between = server_now(other_conn)

    assert before < between < server_now(conn)
