"""Keys that sign are read once for many webhooks, and each tenant's for it alone."""

from contextlib import contextmanager
from datetime import timedelta

import pytest

from shared.actions.failures import ActionFailed
from shared.actions.signing_keys import SigningKeys
from shared.queries.tenants import insert_signing_key
from tests.builders_db import NOW, insert_tenant
from tests.builders_sealed import CLEAR, LOST, ROTATING
from tests.builders_sealed import OLD as OLD_SEALER

OLD, NEW = b"o" * 32, b"n" * 32
LATER = NOW + timedelta(hours=1)


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


def _add(conn, tenant_id, secret, sealer=CLEAR, *, now=NOW):
    insert_signing_key(conn, tenant_id=tenant_id, secret=sealer.seal(secret), now=now)


def _secrets(conn, keys, tenant_id):
    @contextmanager
    def connect():
        yield conn

    return set(keys.of(tenant_id, connect=connect, now=LATER))


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


def test_keys_in_the_clear_and_under_each_encryption_key_sign_side_by_side(conn, tenant_id):
    for secret, sealer in ((OLD, CLEAR), (NEW, OLD_SEALER), (b"x" * 32, ROTATING)):
        _add(conn, tenant_id, secret, sealer)

    signing = _secrets(conn, SigningKeys(ROTATING), tenant_id)

    assert signing == {OLD, NEW, b"x" * 32}


@pytest.mark.parametrize("sealer", [CLEAR, LOST])
def test_where_the_newest_key_cannot_be_read_nothing_is_signed_for_now(conn, tenant_id, sealer):
    _add(conn, tenant_id, OLD)
    _add(conn, tenant_id, NEW, ROTATING, now=LATER)

    with pytest.raises(ActionFailed, match="the signing key cannot be read") as caught:
        _secrets(conn, SigningKeys(sealer), tenant_id)

    assert caught.value.transient


def test_behind_a_new_key_one_that_cannot_be_read_is_left_out(conn, tenant_id):
    _add(conn, tenant_id, OLD, LOST)
    _add(conn, tenant_id, NEW, ROTATING, now=LATER)

    assert _secrets(conn, SigningKeys(ROTATING), tenant_id) == {NEW}
