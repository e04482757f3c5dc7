import pytest

from services.worker.definitions import Definitions, UnknownForm
from tests.builders_db import insert_definition, insert_tenant

_MILLION = 1_000_000


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


@pytest.fixture
def store(conn, tenant_id):
    """Stores definitions; each has another name, and settings of so many characters."""

    def store(name, *, size=1):
        trigger = {"name": name, "actions": [{"type": "notify", "message": "x" * size}]}
        return insert_definition(conn, tenant_id, {"v": 1, "trigger": trigger, "columns": []})

    return store


def test_a_definition_is_read_once(conn, bench, store, tenant_id):
    definitions = Definitions(bench.pool)
    digest = store("often met")
    first = definitions.get(tenant_id, digest)

    conn.execute("DELETE FROM definition")

    assert definitions.get(tenant_id, digest) is first


def test_large_definitions_are_forgotten_before_they_fill_the_memory(conn, bench, store, tenant_id):
    definitions = Definitions(bench.pool)
    digests = [store(f"{number}", size=2 * _MILLION) for number in range(5)]

    for digest in digests:
        definitions.get(tenant_id, digest)
    conn.execute("DELETE FROM definition")

    for digest in digests[-3:]:
        assert definitions.get(tenant_id, digest).actions
    with pytest.raises(KeyError):
        definitions.get(tenant_id, digests[0])


def test_a_definition_larger_than_all_that_is_kept_is_executed_all_the_same(
    bench, store, tenant_id
):
    definitions = Definitions(bench.pool)

    found = definitions.get(tenant_id, store("huge", size=9 * _MILLION))

    assert found.trigger["name"] == "huge"


def test_a_form_of_a_later_release_is_refused(conn, bench, tenant_id):
    digest = insert_definition(conn, tenant_id, {"v": 2})

    with pytest.raises(UnknownForm, match="has form 2"):
        Definitions(bench.pool).get(tenant_id, digest)
