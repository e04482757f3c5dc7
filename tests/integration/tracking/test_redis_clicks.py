import os
import signal
import socket
from datetime import timedelta

import psycopg
import pytest

from shared.domain.delays import Delay
from shared.effects.delays import after_schedule, schedule
from shared.lifecycle import monotonic, wait_until
from shared.observability import metrics
from shared.queries.tracking import find_click
from shared.settings import read_settings
from shared.tracking import redis_line as module
from shared.tracking.click_store import PostgresClicks
from shared.tracking.redis_clicks import RedisClicks
from shared.tracking.redis_line import open_redis
from shared.tracking.stores import open_clicks
from tests.builders_db import row_of
from tests.builders_delayed import a_new_action, insert_wait


def _key(link):
    return f"duebook:click:{link.token}"


def _unanswered():
    return metrics.REDIS_UNANSWERED._value.get()


@pytest.fixture
def restartable_clicks(restartable_redis):
    clicks = RedisClicks(
        open_redis(restartable_redis.url), PostgresClicks(), prefix="duebook", ttl_seconds=60
    )
    yield clicks
    clicks.close()


@pytest.fixture
def silent_url():
    """The URL of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"


def _stored(conn):
    return conn.execute(
        "SELECT first_clicked_at, clicks, unlocked_at FROM tracking_click"
    ).fetchone()


def test_a_yes_of_redis_is_enough_and_made_durable(redis_clicks, redis, conn, link, now):
    redis.set(_key(link), now.isoformat())

    assert redis_clicks.clicked_at(conn, link) == now
    assert _stored(conn) == (now, 0, None)


def test_a_yes_of_redis_changes_nothing_of_a_row_that_knows_it(
    redis_clicks, redis, conn, link, now
):
    redis_clicks.mark(conn, link, clicked_at=now)
    conn.execute("UPDATE tracking_click SET unlocked_at = %s", [now])

    assert redis_clicks.clicked_at(conn, link) == now
    assert _stored(conn) == (now, 1, now)


def test_a_click_that_redis_alone_knew_goes_before_a_later_one(
    redis_clicks, redis, conn, link, now
):
    redis_clicks.mark(conn, link, clicked_at=now)
    conn.execute("UPDATE tracking_click SET unlocked_at = %s", [now])
    earlier = now - timedelta(seconds=1)
    redis.set(_key(link), earlier.isoformat())

    assert redis_clicks.clicked_at(conn, link) == earlier
    assert _stored(conn) == (earlier, 1, None)


def test_a_click_that_died_after_redis_is_counted_when_it_comes_again(
    redis_clicks, redis, conn, link, now
):
    redis.set(_key(link), now.isoformat())
    redis_clicks.clicked_at(conn, link)

    redis_clicks.mark(conn, link, clicked_at=now + timedelta(seconds=1))

    assert _stored(conn) == (now, 1, None)


def test_a_wait_that_redis_calls_clicked_has_the_durable_click_beside_it(
    redis_clicks, redis, conn, other_conn, link, now
):
    redis.set(_key(link), now.isoformat())
    delay = Delay(mode="waitForTracking", seconds=3600, tracking_link=link.token)

    with conn.transaction():
        recorded = schedule(
            conn,
            a_new_action(link.tenant_id),
            delay=delay,
            link_token=link.token,
            clicks=redis_clicks,
            now=now,
        )
        assert find_click(other_conn, link.id) is None

    assert row_of(conn, "scheduled_action", recorded.action_id)["branch"] == "clicked"
    assert find_click(other_conn, link.id) == now


def test_the_look_behind_the_commit_unlocks_what_redis_alone_knew(
    redis_clicks, redis, conn, link, now
):
    wait = insert_wait(
        conn, link.tenant_id, expires_at=now + timedelta(hours=1), tracking_link_id=link.id
    )
    redis.set(_key(link), now.isoformat())

    assert after_schedule(conn, tenant_id=link.tenant_id, link_id=link.id, clicks=redis_clicks)

    assert row_of(conn, "scheduled_action", wait)["branch"] == "clicked"


def test_redis_forgets_after_its_time(redis_clicks, redis, conn, link, now):
    redis_clicks.mark(conn, link, clicked_at=now)

    assert 0 < redis.ttl(_key(link)) <= 60


def test_a_further_click_does_not_make_redis_remember_longer(redis_clicks, redis, conn, link, now):
    redis_clicks.mark(conn, link, clicked_at=now)
    redis.expire(_key(link), 5)

    redis_clicks.mark(conn, link, clicked_at=now)

    assert redis.ttl(_key(link)) <= 5


def test_a_lost_key_does_not_lose_the_click(redis_clicks, redis, conn, link, now):
    redis_clicks.mark(conn, link, clicked_at=now)
    redis.delete(_key(link))

    assert redis_clicks.clicked_at(conn, link) == now


@pytest.mark.parametrize("value", [b"", b"1", b"\xff", b"2026-01-01T00:00:00", b"x" * 100])
def test_what_is_no_instant_of_ours_proves_nothing(redis_clicks, redis, conn, link, value):
    redis.set(_key(link), value)

    assert redis_clicks.clicked_at(conn, link) is None


def test_a_key_of_another_kind_proves_nothing(redis_clicks, redis, conn, link, now):
    redis.lpush(_key(link), "x")

    redis_clicks.mark(conn, link, clicked_at=now)

    assert redis_clicks.clicked_at(conn, link) == now


def test_redis_hears_of_a_click_before_the_database(redis_clicks, redis, conn, link, now):
    conn.close()

    with pytest.raises(psycopg.OperationalError):
        redis_clicks.mark(conn, link, clicked_at=now)

    assert redis.get(_key(link)) == now.isoformat().encode()


def test_without_redis_clicks_go_on(restartable_clicks, restartable_redis, conn, link, now, capsys):
    restartable_redis.stop()
    before = _unanswered()

    restartable_clicks.mark(conn, link, clicked_at=now)

    assert restartable_clicks.clicked_at(conn, link) == now
    assert _unanswered() == before + 2
    assert metrics.REDIS_AWAY._value.get() == 1
    lost = [line for line in capsys.readouterr().out.splitlines() if "redis_lost" in line]
    assert len(lost) == 1
    assert "127.0.0.1" not in lost[0]


def test_a_redis_that_is_back_is_asked_again(
    restartable_clicks, restartable_redis, conn, link, now, monkeypatch, capsys
):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.05)
    restartable_redis.stop()
    restartable_clicks.mark(conn, link, clicked_at=now)
    restartable_redis.start()
    with open_redis(restartable_redis.url) as redis:
        redis.set(_key(link), (now - timedelta(seconds=9)).isoformat())

    def answers_by_redis():
        return restartable_clicks.clicked_at(conn, link) == now - timedelta(seconds=9)

    assert wait_until(answers_by_redis, seconds=10)
    assert metrics.REDIS_AWAY._value.get() == 0
    assert "redis_regained" in capsys.readouterr().out


def test_a_connection_that_a_restart_cut_is_opened_again(
    restartable_clicks, restartable_redis, conn, link, now
):
    restartable_clicks.clicked_at(conn, link)
    restartable_redis.stop()
    restartable_redis.start()
    before = _unanswered()

    restartable_clicks.mark(conn, link, clicked_at=now)

    assert _unanswered() == before


def test_a_silent_redis_holds_up_one_request_for_a_moment(silent_url, conn, link, now):
    clicks = RedisClicks(open_redis(silent_url), PostgresClicks(), prefix="duebook", ttl_seconds=60)

    began_at = monotonic()
    clicks.mark(conn, link, clicked_at=now)
    first_seconds = monotonic() - began_at
    began_at = monotonic()
    for _ in range(20):
        assert clicks.clicked_at(conn, link) == now
    others_seconds = monotonic() - began_at
    clicks.close()

    assert 0.09 < first_seconds < 1.0
    assert others_seconds < 1.0


def test_a_frozen_redis_is_no_fault(restartable_clicks, restartable_redis, conn, link, now):
    restartable_clicks.clicked_at(conn, link)
    os.kill(restartable_redis.pid, signal.SIGSTOP)
    try:
        restartable_clicks.mark(conn, link, clicked_at=now)
        assert restartable_clicks.clicked_at(conn, link) == now
    finally:
        os.kill(restartable_redis.pid, signal.SIGCONT)


def test_a_replica_is_no_fault_and_serves_once_it_is_promoted(
    restartable_clicks, restartable_redis, conn, link, now, unused_port, monkeypatch
):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.05)
    with open_redis(restartable_redis.url) as redis:
        redis.replicaof("127.0.0.1", unused_port)
        try:
            restartable_clicks.mark(conn, link, clicked_at=now)
            assert metrics.REDIS_AWAY._value.get() == 1
            assert restartable_clicks.clicked_at(conn, link) == now

            redis.replicaof("NO", "ONE")

            def is_told():
                restartable_clicks.mark(conn, link, clicked_at=now)
                return redis.get(_key(link)) is not None

            assert wait_until(is_told, seconds=10)
        finally:
            restartable_redis.stop()


def test_a_password_that_is_wrong_is_no_fault(redis_url, conn, link, now):
    url = redis_url.replace("redis://", "redis://somebody:wrong@")
    clicks = RedisClicks(open_redis(url), PostgresClicks(), prefix="duebook", ttl_seconds=60)

    clicks.mark(conn, link, clicked_at=now)

    assert clicks.clicked_at(conn, link) == now
    clicks.close()


def test_settings_choose_the_store(monkeypatch, redis_url, conn, link, now):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/duebook")
    monkeypatch.delenv("REDIS_URL", raising=False)
    assert isinstance(open_clicks(read_settings("worker")), PostgresClicks)

    monkeypatch.setenv("REDIS_URL", redis_url)
    clicks = open_clicks(read_settings("worker"))
    clicks.mark(conn, link, clicked_at=now)
    with open_redis(redis_url) as redis:
        assert redis.ttl(_key(link)) > 6 * 86_400
    clicks.close()
