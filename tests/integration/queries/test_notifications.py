import pytest

from shared.queries.notifications import (
    listen_for_due,
    listen_for_work,
    notify_due,
    notify_work,
)


def _heard(conn):
    """Return the first notification that comes."""
    return next((notify.channel for notify in conn.notifies(timeout=10, stop_after=1)), None)


@pytest.mark.parametrize(
    ("listen", "notify", "other", "channel"),
    [
        (listen_for_work, notify_work, notify_due, "duebook_work"),
        (listen_for_due, notify_due, notify_work, "duebook_due"),
    ],
)
def test_a_session_hears_what_it_listens_for_and_no_more(
    conn, other_conn, listen, notify, other, channel
):
    listen(other_conn)

    other(conn)
    notify(conn)

    assert _heard(other_conn) == channel


def test_a_notification_is_heard_only_after_the_commit(conn, other_conn):
    listen_for_work(other_conn)
    listen_for_due(other_conn)

    with conn.transaction(force_rollback=True):
        notify_work(conn)
    with conn.transaction():
        notify_due(conn)

    assert _heard(other_conn) == "duebook_due"
