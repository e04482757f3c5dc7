import secrets
from datetime import timedelta

import psycopg
import pytest

from shared.db.clock import server_now
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.queries.notifications import listen_for_work
from shared.queries.tracking import (
    UNLOCKED_AT_ONCE,
    find_click,
    find_link_to_watch,
    list_untried,
    unlock,
)
from shared.tracking.click_store import PostgresClicks
from shared.usecases.unlock_wait import (
    check_and_complete_delay_wait,
    find_clicked,
    sweep_clicks,
    take_click,
)
from tests.builders_db import FAR_OFF, LONG_AGO, insert_tenant, row_of
from tests.builders_delayed import insert_click, insert_link, insert_wait

CLICKS = PostgresClicks()


@pytest.fixture
def wait(conn):
    """A wait that ends far in the future; its row, as it was inserted."""
    return row_of(conn, "scheduled_action", insert_wait(conn, expires_at=FAR_OFF))


@pytest.fixture
def token(conn, wait):
    return row_of(conn, "tracking_link", wait["tracking_link_id"])["token"]


def _now(conn, wait):
    return row_of(conn, "scheduled_action", wait["id"])


def _is_unlocked(conn, wait):
    now = _now(conn, wait)
    return now["branch"] == "clicked" and now["announce_at"] < wait["announce_at"]


def _click(conn, token, **more):
    link = find_clicked(conn, token)
    if link is not None:
        take_click(conn, link, **{"clicked_at": server_now(conn), "clicks": CLICKS} | more)
    return link


def test_a_click_makes_the_wait_due_at_once_on_its_clicked_branch(conn, wait, token):
    link = _click(conn, token)

    now = _now(conn, wait)
    assert link.target_url == "https://example.com/offer"
    assert (now["status"], now["branch"], now["urgent"]) == ("pending", "clicked", True)
    assert now["next_attempt_at"] <= now["announce_at"] <= server_now(conn).isoformat()
    # What was promised, and the token of a reference that may be on its way, stay.
    assert (now["execute_at"], now["lease_token"]) == (wait["execute_at"], wait["lease_token"])
    assert list_untried(conn, limit=9) == []


def test_an_unlocked_wait_wakes_the_workers(conn, other_conn, token):
    listen_for_work(other_conn)

    _click(conn, token)

    assert len(list(other_conn.notifies(timeout=5, stop_after=1))) == 1


def test_repeated_clicks_unlock_once(conn, wait, token):
    _click(conn, token)
    first = _now(conn, wait)

    _click(conn, token)

    assert _now(conn, wait) == first
    assert check_and_complete_delay_wait(conn, wait["tracking_link_id"]) == []


def test_a_click_exactly_at_the_deadline_is_late(conn, wait, token):
    _click(conn, token, clicked_at=FAR_OFF)

    assert _now(conn, wait) == wait


def test_a_click_a_microsecond_before_the_deadline_is_in_time(conn, wait, token):
    _click(conn, token, clicked_at=FAR_OFF - timedelta(microseconds=1))

    assert _is_unlocked(conn, wait)


def test_a_click_in_time_that_is_told_after_a_late_one_still_wins(conn, wait, token):
    _click(conn, token, clicked_at=FAR_OFF)

    _click(conn, token, clicked_at=LONG_AGO)

    assert _is_unlocked(conn, wait)


@pytest.mark.parametrize("status", ["processing", "done", "failed", "cancelled"])
def test_only_what_is_pending_is_unlocked(conn, status):
    wait_id = insert_wait(conn, expires_at=FAR_OFF, status=status, clicked_at=LONG_AGO)
    before = row_of(conn, "scheduled_action", wait_id)

    assert check_and_complete_delay_wait(conn, before["tracking_link_id"]) == []

    assert row_of(conn, "scheduled_action", wait_id) == before


def test_a_wait_that_expired_stays_so(conn):
    wait_id = insert_wait(conn, expires_at=FAR_OFF, branch="expired", clicked_at=LONG_AGO)
    before = row_of(conn, "scheduled_action", wait_id)

    assert check_and_complete_delay_wait(conn, before["tracking_link_id"]) == []


def test_a_click_unlocks_nothing_of_another_link(conn, wait):
    other = insert_link(conn, wait["tenant_id"])
    insert_click(conn, other)

    assert check_and_complete_delay_wait(conn, other) == []
    assert _now(conn, wait) == wait


@pytest.mark.parametrize(
    "token",
    ["", "short", "x" * 33, "ü" * 32, link_token(secrets.token_bytes(TOKEN_BYTES))],
    ids=["empty", "short", "long", "of_another_script", "well_formed"],
)
def test_an_unknown_token_does_nothing(conn, token):
    assert _click(conn, token) is None
    assert conn.execute("SELECT count(*) FROM tracking_click").fetchone() == (0,)


def test_a_click_is_taken_although_the_wait_is_locked_and_the_sweep_unlocks_it(
    conn, other_conn, wait, token, capsys
):
    conn.execute("SET lock_timeout = '50ms'")

    with other_conn.transaction():
        other_conn.execute("SELECT FROM scheduled_action FOR UPDATE")
        assert _click(conn, token) is not None
        assert find_click(conn, wait["tracking_link_id"]) is not None
        assert sweep_clicks(conn, limit=9) is None
    assert _now(conn, wait) == wait
    assert capsys.readouterr().out.count("unlock_postponed") == 2

    sweep_clicks(conn, limit=9)

    assert _is_unlocked(conn, wait)
    assert list_untried(conn, limit=9) == []


def test_a_wait_whose_scheduling_dies_after_its_commit_is_found_by_the_sweep(conn, other_conn):
    """The click finds nothing to unlock yet, and may not count as dealt with."""
    tenant_id = insert_tenant(conn)
    link = row_of(conn, "tracking_link", insert_link(conn, tenant_id))

    with other_conn.transaction():
        find_link_to_watch(other_conn, tenant_id=tenant_id, token=link["token"])
        wait_id = insert_wait(
            other_conn, tenant_id, expires_at=FAR_OFF, tracking_link_id=link["id"]
        )
        _click(conn, link["token"])
    assert row_of(conn, "scheduled_action", wait_id)["branch"] is None

    sweep_clicks(conn, limit=9)

    assert row_of(conn, "scheduled_action", wait_id)["branch"] == "clicked"


def test_the_sweep_goes_on_behind_what_it_has_looked_at(conn):
    waits = [insert_wait(conn, expires_at=FAR_OFF, clicked_at=LONG_AGO) for _ in range(5)]

    after = sweep_clicks(conn, limit=3)
    assert after is not None
    assert sweep_clicks(conn, after=after, limit=3) is None

    assert {row_of(conn, "scheduled_action", id)["branch"] for id in waits} == {"clicked"}


def test_a_link_of_another_tenant_is_not_to_be_watched(conn, wait, token):
    assert find_link_to_watch(conn, tenant_id=insert_tenant(conn), token=token) is None


def test_a_click_that_cannot_be_written_is_told(conn, token):
    conn.execute("SET default_transaction_read_only = on")

    with pytest.raises(psycopg.Error):
        _click(conn, token)


def test_the_unlock_decides_once_when_two_come_at_a_time(conn, other_conn, wait):
    insert_click(conn, wait["tracking_link_id"])

    with conn.transaction():
        first = unlock(conn, wait["tracking_link_id"])
    second = unlock(other_conn, wait["tracking_link_id"])

    assert ([row.id for row in first], second) == ([wait["id"]], [])


def _insert_waits(conn, wait, count):
    """Insert so many more waits for the link of a wait."""
    conn.execute(
        "INSERT INTO scheduled_action (tenant_id, origin_key, mode, execute_at, expires_at,"
        " action_type, action_config, tracking_link_id, announce_at, next_attempt_at, created_at,"
        " updated_at) SELECT tenant_id, 'more ' || number, mode, execute_at, expires_at,"
        " action_type, action_config, tracking_link_id, announce_at, next_attempt_at, created_at,"
        " updated_at FROM scheduled_action, generate_series(1, %s) AS number WHERE id = %s",
        [count, wait["id"]],
    )


def _count_unlocked(conn):
    [count] = conn.execute("SELECT count(*) FROM scheduled_action WHERE branch IS NOT NULL")
    return count[0]


def test_a_click_for_which_thousands_wait_is_followed_up_by_the_sweep(conn, wait, token):
    _insert_waits(conn, wait, 2 * UNLOCKED_AT_ONCE)

    _click(conn, token)
    by_click = _count_unlocked(conn)
    link_id = wait["tracking_link_id"]
    first = sweep_clicks(conn, limit=9)
    last = sweep_clicks(conn, after=first, limit=9)

    assert by_click == UNLOCKED_AT_ONCE
    assert (first, last) == (link_id - 1, None)
    assert _count_unlocked(conn) == 2 * UNLOCKED_AT_ONCE + 1
    assert list_untried(conn, limit=9) == []


def test_a_link_that_cannot_be_unlocked_in_time_holds_up_no_other(conn, other_conn, wait):
    insert_click(conn, wait["tracking_link_id"])
    other = row_of(conn, "scheduled_action", insert_wait(conn, expires_at=FAR_OFF))
    insert_click(conn, other["tracking_link_id"])
    conn.execute("SET lock_timeout = 0")
    conn.execute("SET statement_timeout = '300ms'")

    with other_conn.transaction():
        other_conn.execute("SELECT FROM scheduled_action WHERE id = %s FOR UPDATE", [wait["id"]])
        sweep_clicks(conn, limit=9)

    assert _is_unlocked(conn, other)
    assert list_untried(conn, limit=9) == [wait["tracking_link_id"]]
