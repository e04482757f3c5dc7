"""What holds for every route, shown on a few."""

import io
import json
import re

import psycopg
import pytest

from services.api.app import create_app
from services.api.dependencies import Parts
from shared.observability import metrics
from shared.settings import Secret
from shared.tracking.click_store import PostgresClicks
from tests.integration.api.callers import (
    MAX_BODY_BYTES,
    PUBLIC_URL,
    Caller,
    Unreadable,
    faults,
    problem,
    send_stream,
)

JSON = "application/json"


def post(who, data, *, path="/v1/tokens", media=JSON, **options):
    return who.post(path, data=data, content_type=media, **options)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", "body_missing", id="nothing"),
        pytest.param(b"{", "json_malformed", id="malformed"),
        pytest.param(b'{"name": "a"} x', "json_malformed", id="more than one value"),
        pytest.param(b"[" * 10_000 + b"]" * 10_000, "json_too_deep", id="10,000 deep"),
        pytest.param(b'{"a":' * 10_000, "json_too_deep", id="10,000 objects deep"),
        pytest.param(b'{"name": "\\u0000"}', "json_text_invalid", id="NUL"),
        pytest.param(b'{"name": "\\ud800"}', "json_text_invalid", id="a lone surrogate"),
        pytest.param(b'{"name": "\xed\xa0\x80"}', "json_not_utf8", id="a surrogate's bytes"),
        pytest.param(b'{"name": "\xff"}', "json_not_utf8", id="not UTF-8"),
        pytest.param('{"name": "a"}'.encode("utf-16"), "json_not_utf8", id="UTF-16"),
        pytest.param(b'{"name": NaN}', "json_number_invalid", id="NaN"),
        pytest.param(b'{"name": -Infinity}', "json_number_invalid", id="infinity"),
        pytest.param(b'{"name": 1e400}', "field_invalid", id="1e400"),
        pytest.param(b'{"name": ' + b"9" * 5000 + b"}", "field_invalid", id="5,000 digits"),
        pytest.param(b'{"name": "a", "name": "b"}', "json_duplicate_key", id="a key twice"),
        pytest.param(b"null", "field_invalid", id="null"),
        pytest.param(b"[]", "field_invalid", id="a list"),
        pytest.param(b'"text"', "field_invalid", id="a text"),
    ],
)
def test_a_body_that_is_no_sound_json_object_is_refused(body, code, moderator):
    assert problem(post(moderator, body))[:2] == (400, code)


def test_each_request_compares_this_hosts_clock_with_the_databases(moderator):
    metrics.CLOCK_AHEAD_SECONDS.set(3600)

    assert moderator.get("/v1/commands").status_code == 200

    assert abs(metrics.CLOCK_AHEAD_SECONDS._value.get()) < 60


def test_unknown_fields_are_refused_not_dropped(moderator):
    answer = post(moderator, json.dumps({"name": "a", "role": "viewer", "x": 1}))

    assert faults(answer) == [("/x", "field_unknown")]


def test_a_body_of_many_unknown_fields_is_refused_as_a_whole(moderator):
    answer = post(moderator, json.dumps({f"field {number}": 1 for number in range(50_000)}))

    assert problem(answer)[:2] == (400, "field_unknown")
    assert len(answer.data) < 1000


@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/x-www-form-urlencoded", "application/json+x"]
)
def test_other_media_types_are_refused(media, moderator):
    assert problem(post(moderator, b"{}", media=media))[:2] == (415, "media_type_unsupported")


def test_a_compressed_body_is_refused(moderator):
    answer = post(moderator, b"{}", headers={"Content-Encoding": "gzip"})

    assert problem(answer)[:2] == (415, "media_type_unsupported")


@pytest.mark.parametrize("length", [MAX_BODY_BYTES + 1, 50_000_000, 10**17])
def test_a_body_over_the_limit_is_refused_before_it_is_read(length, moderator):
    answer = send_stream(moderator, "/v1/tokens", Unreadable(), media=JSON, length=length)

    assert problem(answer)[:2] == (413, "body_too_large")


def test_a_chunked_body_is_refused_before_it_is_read(moderator):
    chunked = {"Transfer-Encoding": "chunked"}
    answer = send_stream(moderator, "/v1/tokens", Unreadable(), media=JSON, headers=chunked)

    assert problem(answer)[:2] == (411, "length_required")


def test_a_body_that_ends_early_is_refused_not_taken_for_whole(moderator, conn):
    body = b'{"name": "a", "role": "viewer"}'
    stream = io.BytesIO(body)
    answer = send_stream(moderator, "/v1/tokens", stream, media=JSON, length=len(body) + 1)

    assert problem(answer)[:2] == (400, "body_truncated")
    assert conn.execute("SELECT count(*) FROM api_token").fetchone() == (1,)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/tokens/",
        "/v1//tokens",
        "/v1/tokens/not-a-uuid",
        "/v1/commands/0x1",
        "/tenant/custom-tables/tables/%00",
        "/%ff%fe",
        "/" + "a" * 10_000,
    ],
)
def test_an_address_that_is_not_there_is_a_problem(path, moderator):
    assert problem(moderator.get(path))[:2] == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"])
def test_a_method_that_a_route_does_not_take_is_405_with_those_that_it_does(method, moderator):
    answer = moderator.request(method, "/v1/tokens")

    assert problem(answer)[:2] == (405, "method_not_allowed")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    "query",
    [
        "x=1",
        "limit=0",
        "limit=1001",
        "limit=true",
        "limit=1e2",
        "limit=%31%00",
        "limit=" + "9" * 5000,
        "limit=1&limit=1",
        "limit=%ff",
        "cursor=",
        "cursor=abc",
    ],
)
def test_a_query_that_is_not_understood_is_refused(query, moderator):
    assert problem(moderator.get(f"/v1/tokens?{query}"))[0] == 400


@pytest.mark.parametrize("key", ["", "a b", "k" * 256, "\xe9"])
def test_an_idempotency_key_that_is_none_is_refused(key, moderator):
    body = json.dumps({"name": "a", "role": "viewer"})
    answer = post(moderator, body, headers={"Idempotency-Key": key})

    assert problem(answer)[:2] == (400, "idempotency_key_invalid")


@pytest.mark.parametrize(
    "environ",
    [
        *({"HTTP_HOST": host} for host in ("", "[", "a:b:c", "\xff" * 300, "a\0b", "x" * 5000)),
        *({"CONTENT_TYPE": kind} for kind in ("\0", ";", 'a/b;c="', "application/json;=")),
        {"HTTP_IF_MATCH": "\xff", "HTTP_RANGE": "bytes=9-1", "HTTP_COOKIE": "=;\0"},
        {"HTTP_X_FORWARDED_FOR": "x" * 5000, "HTTP_EXPECT": "x", "HTTP_UPGRADE": "h2c"},
        {"HTTP_AUTHORIZATION": "Bearer " + "\u00e9" * 5000},
        {"PATH_INFO": "/v1/\xff\xfe/../tokens"},
        {"SCRIPT_NAME": "/\xff"},
        {"QUERY_STRING": "\xff=%"},
    ],
)
def test_no_header_or_address_breaks_a_request(environ, moderator):
    for method in ("GET", "POST"):
        answer = moderator.request(method, "/v1/tokens", environ_overrides=environ)
        assert answer.status_code < 500


def test_answers_are_not_cached_and_not_sniffed(moderator):
    for answer in (moderator.get("/v1/tokens"), moderator.get("/nothing")):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_head_answers_like_get_without_a_body(moderator):
    answer = moderator.request("HEAD", "/v1/tokens")

    assert (answer.status_code, answer.data) == (200, b"")


def test_a_lock_that_cannot_be_had_is_503_and_comes_back(moderator, table, conn):
    with conn.transaction():
        conn.execute("SELECT FROM custom_table FOR UPDATE")
        busy = moderator.patch(table, json={"name": "x"})
    free = moderator.patch(table, json={"name": "x"})

    assert problem(busy)[:2] == (503, "database_unavailable")
    assert int(busy.headers["Retry-After"]) > 0
    assert free.status_code == 200


def test_two_requests_under_one_key_are_one(moderator, conn, other_conn):
    """The second waits for the first, and gives up with a 503 when that takes too long."""
    body = {"name": "a", "role": "viewer"}
    key = {"Idempotency-Key": "k1"}
    tenant_id = conn.execute("SELECT id FROM tenant").fetchone()[0]
    take = """
        INSERT INTO idempotent_answer (tenant_id, key, request_hash, created_at)
        VALUES (%s, 'k1', %s, clock_timestamp())
    """
    with conn.transaction(force_rollback=True):
        conn.execute(take, [tenant_id, b"h" * 32])
        waiting = moderator.post("/v1/tokens", json=body, headers=key)
    after = moderator.post("/v1/tokens", json=body, headers=key)

    assert problem(waiting)[0] == 503
    assert after.status_code == 201


def test_a_database_that_is_away_is_503():
    def away():
        raise psycopg.OperationalError("connection refused")

    parts = Parts(
        sessions=away,
        operator_sessions=away,
        admin_token=Secret("a"),
        clicks=PostgresClicks(),
        public_url=PUBLIC_URL,
        max_body_bytes=1000,
        max_bulk_bytes=1000,
    )
    who = Caller(
        client=create_app(parts).test_client(),
        headers={"Authorization": "Bearer dbk_x"},
        tables="/tenant/custom-tables/tables",
    )

    assert problem(who.get(who.tables))[:2] == (503, "database_unavailable")


SOMEBODYS = {
    "uuid": "22222222-2222-4222-8222-222222222222",
    "id": "1",
    "trigger": "trg_000000000001",
}


@pytest.mark.parametrize("given", [None, "", "wrong", "the admin token of the tests ", "\xff" * 99])
def test_without_the_right_admin_token_no_root_route_tells_anything(given, app, client):
    headers = {} if given is None else {"X-ADMIN-TOKEN": given}
    routes = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/root/")]
    assert len(routes) > 20

    for rule in routes:
        path = re.sub(r"<([a-z]+):[a-z_]+>", lambda found: SOMEBODYS[found[1]], rule.rule)
        method = next(iter(rule.methods - {"HEAD"}))
        answer = client.open(path, method=method, headers=headers, data=b"\xff")
        assert problem(answer) == (
            403,
            "admin_token_invalid",
            "BaseRoot access denied: Invalid X-ADMIN-TOKEN",
        ), rule
