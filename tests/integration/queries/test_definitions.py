from hashlib import sha256

from shared.queries.definitions import list_definitions, store_definition
from tests.builders_db import insert_tenant

HASH = sha256(b"one").digest()


def test_a_definition_is_stored_once_for_each_tenant(conn):
    one, other = insert_tenant(conn), insert_tenant(conn)

    for tenant_id in (one, one, other):
        store_definition(conn, tenant_id=tenant_id, hash=HASH, body={"v": 1})

    assert conn.execute("SELECT count(*) FROM definition").fetchone() == (2,)


def test_definitions_of_several_tenants_are_found_together(conn):
    one, other = insert_tenant(conn), insert_tenant(conn)
    store_definition(conn, tenant_id=one, hash=HASH, body={"n": 1})
    store_definition(conn, tenant_id=other, hash=HASH, body={"n": 2})
    unknown = (one, sha256(b"unknown").digest())

    found = list_definitions(conn, [(one, HASH), (other, HASH), unknown])

    assert found == {(one, HASH): {"n": 1}, (other, HASH): {"n": 2}}
