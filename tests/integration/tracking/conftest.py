"""Both click stores behind one face, and links to be clicked."""

import secrets

import pytest

from shared.db.clock import server_now
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.queries.tracking import find_link_by_id
from shared.tracking.click_store import PostgresClicks
from shared.tracking.redis_clicks import RedisClicks
from shared.tracking.redis_line import open_redis
from tests.builders_db import insert_tenant
from tests.builders_delayed import insert_link


@pytest.fixture
def link(conn):
    """A link of a tenant of its own."""
    tenant_id = insert_tenant(conn)
    token = link_token(secrets.token_bytes(TOKEN_BYTES))
    link_id = insert_link(conn, tenant_id, token=token)
    return find_link_by_id(conn, tenant_id=tenant_id, link_id=link_id)


@pytest.fixture
def now(conn):
    return server_now(conn)


@pytest.fixture
def redis(redis_url):
    """A client of the store's own kind."""
    with open_redis(redis_url) as client:
        yield client


@pytest.fixture
def redis_clicks(redis_url):
    clicks = RedisClicks(open_redis(redis_url), PostgresClicks(), prefix="duebook", ttl_seconds=60)
    yield clicks
    clicks.close()


@pytest.fixture(params=["postgres", "redis"])
def clicks(request):
    """Each test that takes it runs over both."""
    if request.param == "postgres":
        return PostgresClicks()
    return request.getfixturevalue("redis_clicks")
