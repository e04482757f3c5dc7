"""From one encryption key to the next, told by sessions of the worker's role."""

from datetime import timedelta

import pytest
from psycopg.errors import LockNotAvailable

from shared.db.connection import connect
from shared.db.roles import WORKER
from shared.errors import InvalidInput
from shared.queries.secrets import insert_secret, replace_secret, secret_values
from shared.queries.tenants import expire_signing_keys, insert_signing_key, list_signing_secrets
from shared.usecases import rotate_secrets as rotation
from shared.usecases.rotate_secrets import Kept, Rotated, rotate_secrets, survey_secrets
from tests.builders_db import NOW, insert_tenant
from tests.builders_sealed import CLEAR, LOST, NEW, OLD, ROTATING


@pytest.fixture
def worker(login_url):
    with connect(login_url(WORKER), application_name="test", role=WORKER) as session:
        yield session


@pytest.fixture
def add(conn):
    """Stores a signing key of a tenant of its own, and returns that."""

    def add(sealer, secret=b"s" * 32):
        tenant_id = insert_tenant(conn)
        insert_signing_key(conn, tenant_id=tenant_id, secret=sealer.seal(secret), now=NOW)
        return tenant_id

    return add


def _opened(conn, sealer, tenant_id):
    [sealed] = list_signing_secrets(conn, tenant_id, now=NOW)
    return sealer.open(sealed)


def test_all_are_encrypted_under_the_first_key_and_say_the_same(conn, worker, add, monkeypatch):
    monkeypatch.setattr(rotation, "_BATCH", 2)
    added = [
        (add(sealer, bytes([number]) * 32), bytes([number]) * 32)
        for number, sealer in enumerate((CLEAR, OLD, CLEAR, NEW, OLD, OLD))
    ]

    first = rotate_secrets(worker, ROTATING, now=NOW)
    again = rotate_secrets(worker, ROTATING, now=NOW)

    assert first == Rotated(encrypted=5, unreadable=0)
    assert again == Rotated(encrypted=0, unreadable=0)
    assert [(tenant_id, _opened(conn, NEW, tenant_id)) for tenant_id, _ in added] == added


def test_secrets_of_tenants_are_rotated_and_counted_with_the_rest(conn, worker, add):
    tenant_id = add(OLD)
    for name, sealer in (("old", OLD), ("lost", LOST), ("clear", CLEAR)):
        value = sealer.seal(name.encode())
        insert_secret(conn, tenant_id=tenant_id, name=name, value=value, now=NOW)

    kept = survey_secrets(worker, ROTATING, now=NOW)
    rotated = rotate_secrets(worker, ROTATING, now=NOW)

    assert kept == Kept(stored=4, in_the_clear=1, under_other_keys=2, unreadable=1)
    assert rotated == Rotated(encrypted=3, unreadable=1)
    stored = secret_values(conn, tenant_id, ["old", "lost", "clear"])
    assert {name: NEW.open(stored[name]) for name in ("old", "clear")} == {
        "old": b"old",
        "clear": b"clear",
    }
    assert LOST.open(stored["lost"]) == b"lost"


def test_a_secret_that_is_set_meanwhile_is_waited_for_and_kept(conn, worker, add):
    tenant_id = add(NEW)
    insert_secret(conn, tenant_id=tenant_id, name="s", value=OLD.seal(b"old"), now=NOW)

    with conn.transaction():
        replace_secret(conn, tenant_id=tenant_id, name="s", value=OLD.seal(b"new"), now=NOW)
        with pytest.raises(LockNotAvailable):
            rotate_secrets(worker, ROTATING, now=NOW)
    rotate_secrets(worker, ROTATING, now=NOW)

    assert NEW.open(secret_values(conn, tenant_id, ["s"])["s"]) == b"new"


def test_what_no_key_opens_stays_as_it_is(conn, worker, add, monkeypatch):
    monkeypatch.setattr(rotation, "_BATCH", 1)
    lost, old = add(LOST), add(OLD)

    rotated = rotate_secrets(worker, ROTATING, now=NOW)

    assert rotated == Rotated(encrypted=1, unreadable=1)
    assert _opened(conn, NEW, old) == _opened(conn, LOST, lost) == b"s" * 32


def test_without_a_key_there_is_nothing_to_encrypt_with(worker, add):
    add(OLD)

    with pytest.raises(InvalidInput) as caught:
        rotate_secrets(worker, CLEAR, now=NOW)

    assert caught.value.code == "encryption_keys_missing"


def test_it_is_told_how_each_is_kept(worker, add):
    for sealer in (CLEAR, CLEAR, OLD, NEW, LOST):
        add(sealer)

    assert survey_secrets(worker, ROTATING, now=NOW) == Kept(
        stored=5, in_the_clear=2, under_other_keys=1, unreadable=1
    )
    assert survey_secrets(worker, CLEAR, now=NOW) == Kept(
        stored=5, in_the_clear=0, under_other_keys=0, unreadable=3
    )


def test_a_lost_key_that_has_expired_is_missed_by_nobody(conn, worker, add):
    expire_signing_keys(conn, tenant_id=add(LOST), at=NOW)

    kept = survey_secrets(worker, ROTATING, now=NOW)
    rotated = rotate_secrets(worker, ROTATING, now=NOW)

    assert kept == Kept(stored=1, in_the_clear=0, under_other_keys=0, unreadable=0)
    assert rotated == Rotated(encrypted=0, unreadable=0)


def test_whoever_changes_a_secret_meanwhile_is_waited_for(conn, worker, add):
    tenant_id = add(OLD)

    with conn.transaction():
        expire_signing_keys(conn, tenant_id=tenant_id, at=NOW + timedelta(days=1))
        with pytest.raises(LockNotAvailable):
            rotate_secrets(worker, ROTATING, now=NOW)

    assert rotate_secrets(worker, ROTATING, now=NOW) == Rotated(encrypted=1, unreadable=0)
