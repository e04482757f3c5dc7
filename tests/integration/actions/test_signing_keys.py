"""Keys that sign are read once for many webhooks, and each tenant's for it alone."""

from contextlib import contextmanager

import pytest

from shared.actions.signing_keys import SigningKeys
from shared.queries.tenants import insert_signing_key
from tests.builders_db import NOW, insert_tenant

OLD, NEW = b"o" * 32, b"n" * 32


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


def _add(conn, tenant_id, secret):
    insert_signing_key(conn, tenant_id=tenant_id, secret=secret, now=NOW)


def _secrets(conn, keys, tenant_id):
    @contextmanager
    def connect():
        yield conn

    return set(keys.of(tenant_id, connect=connect, now=NOW))


@pytest.mark.parametrize(("fresh_seconds", "after"), [(600, {OLD}), (0, {OLD, NEW})])
def test_a_new_key_signs_once_what_was_read_is_old(conn, tenant_id, fresh_seconds, after):
    keys = SigningKeys(fresh_seconds=fresh_seconds)
    _add(conn, tenant_id, OLD)
    before = _secrets(conn, keys, tenant_id)
    _add(conn, tenant_id, NEW)

    assert (before, _secrets(conn, keys, tenant_id)) == ({OLD}, after)


def test_that_there_is_no_key_is_not_kept(conn, tenant_id):
    keys = SigningKeys(fresh_seconds=600)
    before = _secrets(conn, keys, tenant_id)
    _add(conn, tenant_id, OLD)

    assert (before, _secrets(conn, keys, tenant_id)) == (set(), {OLD})


def test_a_tenant_signs_with_its_own_keys(conn, tenant_id):
    keys = SigningKeys(fresh_seconds=600)
    other_id = insert_tenant(conn)
    _add(conn, tenant_id, OLD)
    _add(conn, other_id, NEW)

    assert [_secrets(conn, keys, id) for id in (tenant_id, other_id)] == [{OLD}, {NEW}]
