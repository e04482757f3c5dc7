"""Limits of requests: of a tenant, and of an address whose tokens are refused."""

import secrets
from dataclasses import replace

import pytest

from services.api.app import create_app
from services.api.request_limits import RequestLimits, client_address
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.tracking.rates import LocalRates, Rate
from tests.builders_delayed import insert_link
from tests.integration.api.callers import problem

# So slow that none comes back while a test runs.
RATE = Rate(per_minute=1, burst=10)
UNKNOWN = {"Authorization": "Bearer dbk_" + "x" * 43}
BY_PROXY = {"environ_overrides": {"REMOTE_ADDR": "10.0.0.1"}}


@pytest.fixture
def app(parts):
    limits = RequestLimits(LocalRates(), of_tenant=RATE, of_refusals=RATE, trusted_proxies=1)
    return create_app(replace(parts, limits=limits))


def statuses(who, *, tries, **options):
    return [who.get(who.tables, **options).status_code for _ in range(tries)]


def seen_from(address, **headers):
    return {"headers": {"X-Forwarded-For": address, **headers}, **BY_PROXY}


def test_a_tenant_has_its_burst_whatever_tokens_it_uses(moderator, viewer):
    assert statuses(moderator, tries=5) + statuses(viewer, tries=5) == [200] * 10

    answer = viewer.get(viewer.tables)

    status, code, detail = problem(answer)
    assert (status, code) == (429, "tenant_rate_exceeded")
    assert 50 < int(answer.headers["Retry-After"]) <= 60
    assert detail.startswith("these are more than 1 requests per minute")


def test_a_refused_request_changes_nothing(moderator, admin, tenant):
    statuses(moderator, tries=10)

    answer = moderator.post(moderator.tables, json={"name": "t", "columns": []})

    assert answer.status_code == 429
    assert admin.get(f"{admin.tables}?tenant={tenant.id}").json["items"] == []


def test_nobody_else_waits_for_a_tenant_at_its_limit(moderator, stranger, admin, tenant, conn):
    token = link_token(secrets.token_bytes(TOKEN_BYTES))
    insert_link(conn, tenant.id, token=token)
    assert statuses(moderator, tries=11)[-1] == 429

    assert statuses(stranger, tries=10) == [200] * 10
    assert statuses(admin, tries=15) == [200] * 15
    assert admin.get(f"/v1/tokens?tenant={tenant.id}").status_code == 200
    assert {admin.client.get(f"/t/{token}").status_code for _ in range(15)} == {302}
    assert {admin.client.get("/openapi.json").status_code for _ in range(15)} == {200}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/tenant/custom-tables/tables", UNKNOWN, id="an unknown token"),
        pytest.param("/tenant/custom-tables/tables", {}, id="no token"),
        pytest.param("/v1/tokens", {"X-ADMIN-TOKEN": "guessed"}, id="a wrong admin token"),
        pytest.param("/root/tenants", {"X-ADMIN-TOKEN": "guessed"}, id="at the root"),
    ],
)
def test_guessing_is_over_after_a_burst(client, moderator, path, headers):
    refused = [client.get(path, **seen_from("192.0.2.7", **headers)) for _ in range(10)]
    assert {answer.status_code for answer in refused} <= {401, 403}

    # Now the right one is not looked at either.
    answer = moderator.get(moderator.tables, **seen_from("192.0.2.7"))

    assert problem(answer)[:2] == (429, "address_rate_exceeded")
    assert 50 < int(answer.headers["Retry-After"]) <= 60
    assert moderator.get(moderator.tables, **seen_from("192.0.2.8")).status_code == 200


def test_who_was_known_at_an_address_goes_on_beside_one_who_guesses(client, moderator, viewer):
    path = moderator.tables
    assert moderator.get(path, **seen_from("192.0.2.7")).status_code == 200
    for _ in range(10):
        client.get(path, **seen_from("192.0.2.7", **UNKNOWN))

    assert moderator.get(path, **seen_from("192.0.2.7")).status_code == 200
    assert viewer.get(path, **seen_from("192.0.2.7")).status_code == 429


def test_a_token_that_is_known_is_no_cover_for_guesses_beside_it(client, moderator):
    guess = {**moderator.headers, "X-ADMIN-TOKEN": "guessed"}
    assert client.get(moderator.tables, **seen_from("192.0.2.7", **guess)).status_code == 200
    for _ in range(10):
        client.get(moderator.tables, **seen_from("192.0.2.7", **UNKNOWN))

    answer = client.get("/root/tenants", **seen_from("192.0.2.7", **guess))

    assert problem(answer)[:2] == (429, "address_rate_exceeded")


def test_what_a_known_caller_may_not_do_is_no_guess(viewer, moderator):
    for _ in range(9):
        assert viewer.post(viewer.tables, json={}, **seen_from("192.0.2.7")).status_code == 403

    assert moderator.get(moderator.tables, **seen_from("192.0.2.7")).status_code == 200


@pytest.mark.parametrize(
    ("peer", "forwarded", "proxies", "address"),
    [
        ("192.0.2.7", None, 0, "192.0.2.7"),
        ("192.0.2.7", "198.51.100.1", 0, "192.0.2.7"),
        ("10.0.0.1", "198.51.100.1", 1, "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1", 1, "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", 2, "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1:4711", 1, "198.51.100.1"),
        ("10.0.0.1", "[2001:db8:1:2::5]:4711", 1, "2001:db8:1:2::"),
        ("10.0.0.1", "198.51.100.1", 2, "10.0.0.1"),
        ("10.0.0.1", None, 1, "unknown"),
        ("2001:db8:1:2:3:4:5:6", None, 0, "2001:db8:1:2::"),
        ("::1", None, 0, "::"),
        ("::ffff:192.0.2.7", None, 0, "192.0.2.7"),
        ("", None, 0, "unknown"),
        ("10.0.0.1", "x" * 5000, 1, "unknown"),
    ],
)
def test_an_address_is_what_the_last_trusted_one_says(peer, forwarded, proxies, address):
    environ = {"REMOTE_ADDR": peer}
    if forwarded is not None:
        environ["HTTP_X_FORWARDED_FOR"] = forwarded

    assert client_address(environ, trusted_proxies=proxies) == address
