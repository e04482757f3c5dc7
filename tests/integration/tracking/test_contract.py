"""What every click store keeps to."""

from datetime import timedelta

import pytest

from shared.queries.tracking import find_click


def test_a_link_that_nobody_clicked_has_no_click(clicks, conn, link):
    assert clicks.clicked_at(conn, link) is None


def test_a_click_is_told_with_its_instant(clicks, conn, link, now):
    clicks.mark(conn, link, clicked_at=now)

    assert clicks.clicked_at(conn, link) == now


def test_the_first_click_stays_when_more_follow(clicks, conn, link, now):
    clicks.mark(conn, link, clicked_at=now)
    clicks.mark(conn, link, clicked_at=now + timedelta(seconds=1))

    assert clicks.clicked_at(conn, link) == now


def test_a_click_is_durable_once_it_is_marked(clicks, conn, other_conn, link, now):
    clicks.mark(conn, link, clicked_at=now)

    assert find_click(other_conn, link.id) == now


def test_a_click_of_another_session_is_seen(clicks, conn, other_conn, link, now):
    clicks.mark(other_conn, link, clicked_at=now)

    assert clicks.clicked_at(conn, link) == now


def test_every_click_is_counted(clicks, conn, link, now):
    for _ in range(3):
        clicks.mark(conn, link, clicked_at=now)

    counted = conn.execute("SELECT clicks FROM tracking_click WHERE link_id = %s", [link.id])
    assert counted.fetchone() == (3,)


def test_an_earlier_click_that_is_told_later_is_tried_anew(clicks, conn, link, now):
    clicks.mark(conn, link, clicked_at=now)
    conn.execute("UPDATE tracking_click SET unlocked_at = %s", [now])

    clicks.mark(conn, link, clicked_at=now - timedelta(seconds=1))

    found = conn.execute("SELECT first_clicked_at, unlocked_at FROM tracking_click").fetchone()
    assert found == (now - timedelta(seconds=1), None)


@pytest.mark.parametrize("later", [0, 1])
def test_a_further_click_is_not_tried_anew(clicks, conn, link, now, later):
    clicks.mark(conn, link, clicked_at=now)
    conn.execute("UPDATE tracking_click SET unlocked_at = %s", [now])

    clicks.mark(conn, link, clicked_at=now + timedelta(seconds=later))

    assert conn.execute("SELECT unlocked_at FROM tracking_click").fetchone() == (now,)
