import json
import secrets

import psycopg
import pytest

from services.api.app import create_app
from services.api.dependencies import Parts
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.settings import Secret
from shared.tracking.click_store import PostgresClicks
from shared.tracking.redis_clicks import RedisClicks
from shared.tracking.redis_line import open_redis
from tests.builders_db import FAR_OFF, row_of
from tests.builders_delayed import insert_link, insert_wait
from tests.integration.api.callers import PUBLIC_URL, problem

TARGET = "https://example.com/offer?a=1&b=%20c#part"
BROWSER = "Mozilla/5.0 (Linux; Android 14; CUBOT NOTE 20) AppleWebKit/537.36 Line/14.1.0"


@pytest.fixture
def link(conn, tenant):
    token = link_token(secrets.token_bytes(TOKEN_BYTES))
    link_id = insert_link(conn, tenant.id, token=token, target_url=TARGET)
    return row_of(conn, "tracking_link", link_id)


@pytest.fixture
def path(link):
    return f"/t/{link['token']}"


def clicks_of(conn):
    return conn.execute("SELECT coalesce(sum(clicks), 0) FROM tracking_click").fetchone()[0]


def make_app(sessions, clicks):
    return create_app(
        Parts(
            sessions=sessions,
            operator_sessions=sessions,
            admin_token=Secret("a"),
            clicks=clicks,
            public_url=PUBLIC_URL,
            max_body_bytes=1000,
            max_bulk_bytes=1000,
        )
    )


def test_anybody_is_led_to_the_stored_target_and_the_click_counts(client, path, conn):
    answer = client.get(path, headers={"User-Agent": BROWSER})

    assert answer.status_code == 302
    assert answer.headers["Location"] == TARGET
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.get_data() == b""
    assert clicks_of(conn) == 1


def test_a_click_unlocks_the_wait_for_it(client, conn, tenant):
    wait_id = insert_wait(conn, tenant.id, expires_at=FAR_OFF)
    link_id = row_of(conn, "scheduled_action", wait_id)["tracking_link_id"]
    token = row_of(conn, "tracking_link", link_id)["token"]

    client.get(f"/t/{token}")

    assert row_of(conn, "scheduled_action", wait_id)["branch"] == "clicked"


def test_the_query_is_not_looked_at(client, path, conn):
    answer = client.get(f"{path}?target_url=https://evil.example&fbclid=1&fbclid=2&%ff")

    assert (answer.status_code, answer.headers["Location"]) == (302, TARGET)
    assert clicks_of(conn) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Purpose": "prefetch"},
        {"X-Purpose": "preview"},
        {"X-Moz": "prefetch"},
        {"User-Agent": "facebookexternalhit/1.1;line-poker/1.0"},
        {"User-Agent": "WhatsApp/2.23.20.0"},
        {"User-Agent": "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
        {"User-Agent": "TelegramBot (like TwitterBot)"},
        {"User-Agent": "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"},
    ],
    ids=lambda headers: next(iter(headers.values()))[:20],
)
def test_what_nobody_looks_at_is_led_on_and_does_not_count(client, path, conn, headers):
    answer = client.get(path, headers=headers)

    assert (answer.status_code, answer.headers["Location"]) == (302, TARGET)
    assert clicks_of(conn) == 0


def test_head_is_led_on_and_does_not_count(client, path, conn):
    answer = client.head(path)

    assert (answer.status_code, answer.headers["Location"]) == (302, TARGET)
    assert clicks_of(conn) == 0


def test_unknown_tokens_of_every_form_are_answered_as_any_address_without_anything(client, conn):
    nothing = client.get("/nothing/here")
    unknown = [
        client.get(f"/t/{token}")
        for token in [link_token(secrets.token_bytes(TOKEN_BYTES)), "x", "x" * 33, "%C3%BC" * 32]
    ]

    assert problem(nothing)[:2] == (404, "not_found")
    assert {answer.get_data() for answer in unknown} == {nothing.get_data()}
    assert {answer.status_code for answer in unknown} == {404}
    assert clicks_of(conn) == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_a_link_is_only_followed(client, path, method, conn):
    assert client.open(path, method=method).status_code == 405
    assert clicks_of(conn) == 0


def test_no_log_line_has_the_token(client, link, path, capsys):
    client.get(path)

    logged = capsys.readouterr().out
    assert '"/t/<token>"' in logged or "/t/<token>" in logged
    assert link["token"] not in logged


def test_with_redis_away_a_click_counts_all_the_same(pool, restartable_redis, path, conn):
    clicks = RedisClicks(
        open_redis(restartable_redis.url), PostgresClicks(), prefix="duebook", ttl_seconds=60
    )
    restartable_redis.stop()

    answer = make_app(pool.connection, clicks).test_client().get(path)

    clicks.close()
    assert answer.status_code == 302
    assert clicks_of(conn) == 1


def test_with_the_database_away_it_is_503_and_no_oracle(path):
    def away():
        raise psycopg.OperationalError("connection refused")

    client = make_app(away, PostgresClicks()).test_client()

    known, unknown = client.get(path), client.get(f"/t/{'x' * 32}")

    assert problem(known)[:2] == (503, "database_unavailable")
    assert json.loads(known.data) == json.loads(unknown.data)
    assert client.head(path).status_code == 503


def test_a_click_that_cannot_be_written_is_503(pool, path, other_conn):
    with other_conn.transaction():
        other_conn.execute("LOCK TABLE tracking_click IN EXCLUSIVE MODE")
        answer = make_app(pool.connection, PostgresClicks()).test_client().get(path)

    assert problem(answer)[0] == 503
