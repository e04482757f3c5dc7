from base64 import b64decode
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from psycopg.errors import LockNotAvailable

from services.api.app import create_app
from shared.db.clock import server_now
from shared.queries.tenants import list_signing_secrets
from shared.sealing import Sealer
from shared.usecases.tokens import replace_signing_key
from tests.builders_sealed import NEW
from tests.integration.api.callers import problem


def _secrets(conn, tenant, *, now):
    """Return the keys that sign, which are stored in the clear here."""
    stored = list_signing_secrets(conn, tenant.id, now=now)
    return [sealed.content for sealed in stored if sealed.sealed_with is None]


def test_a_new_key_signs_beside_the_old_one_for_a_day(moderator, tenant, conn):
    answer = moderator.post("/v1/signing-keys")

    now = server_now(conn)
    new = b64decode(answer.json["secret"].removeprefix("whsec_"))
    assert answer.status_code == 201
    assert _secrets(conn, tenant, now=now) == [new, b"k" * 32]
    assert _secrets(conn, tenant, now=now + timedelta(days=2)) == [new]


def test_of_two_new_keys_at_once_the_second_waits_to_end_the_first(tenant, conn, other_conn):
    def replace(conn, secret):
        return replace_signing_key(
            conn, tenant_id=tenant.id, secret=secret, sealer=Sealer(), now=server_now(conn)
        )

    with conn.transaction():
        replace(conn, b"1" * 32)
        with pytest.raises(LockNotAvailable):
            replace(other_conn, b"2" * 32)
    replace(other_conn, b"2" * 32)

    later = server_now(conn) + timedelta(days=2)
    assert _secrets(conn, tenant, now=later) == [b"2" * 32]


def test_with_encryption_keys_what_is_stored_is_encrypted(parts, caller, tenant, admin, conn):
    client = create_app(replace(parts, sealer=NEW)).test_client()
    moderator = replace(caller(tenant, "moderator"), client=client)

    text = moderator.post("/v1/signing-keys").json["secret"]
    made = replace(admin, client=client).post("/root/tenants", json={"name": "new"}).json

    now = server_now(conn)
    secret = b64decode(text.removeprefix("whsec_"))
    newest = list_signing_secrets(conn, tenant.id, now=now)[0]
    assert newest.sealed_with == NEW.current
    assert NEW.open(newest) == secret
    assert secret not in newest.content
    [first] = list_signing_secrets(conn, UUID(made["id"]), now=now)
    assert first.sealed_with == NEW.current


def test_secrets_are_never_listed(moderator):
    secret = moderator.post("/v1/signing-keys").json["secret"]

    listed = moderator.get("/v1/signing-keys")

    assert len(listed.json["items"]) == 2
    assert set(listed.json["items"][0]) == {"id", "created_at", "expires_at"}
    assert secret not in listed.get_data(as_text=True)


def test_a_replayed_creation_makes_no_second_key_and_shows_no_secret(moderator):
    key = {"Idempotency-Key": "k1"}
    first = moderator.post("/v1/signing-keys", headers=key).json
    again = moderator.post("/v1/signing-keys", headers=key).json

    assert again == {**first, "secret": None}
    assert len(moderator.get("/v1/signing-keys").json["items"]) == 2


@pytest.mark.parametrize("role", ["editor", "viewer", "service"])
def test_only_moderators_make_keys(role, caller, tenant):
    assert problem(caller(tenant, role).post("/v1/signing-keys"))[:2] == (403, "role_missing")


def test_a_body_where_none_is_taken_is_refused(moderator):
    answer = moderator.post("/v1/signing-keys", json={"secret": "mine"})

    assert problem(answer)[:2] == (400, "body_not_expected")


def test_an_empty_object_is_no_body(moderator):
    assert moderator.post("/v1/signing-keys", json={}).status_code == 201
