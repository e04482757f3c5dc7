import pytest

from shared.db.connection import connect
from shared.db.identities import pass_over_ids
from shared.db.roles import API
from shared.errors import Forbidden, NotFound
from tests.builders_db import insert_records, insert_table

_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'"


def test_every_table_goes_on_behind_the_ids_that_are_passed_over(conn):
    table = insert_table(conn)
    [before] = insert_records(conn, table, [{}])

    last = pass_over_ids(conn, 1000)

    [after] = insert_records(conn, table, [{}])
    assert (last["record_id_seq"], after.id) == (before.id + 1000, before.id + 1001)
    assert last["event_id_seq"] == 1000
    assert last.keys() == {name for (name,) in conn.execute(_SEQUENCES)}


def test_ids_that_are_few_are_not_used_up(conn):
    conn.execute("SELECT setval('worker_id_seq', 2000000000)")

    last = [pass_over_ids(conn, 1_000_000_000)["worker_id_seq"] for _ in range(3)]

    assert 2_000_000_000 < last[0] < last[1] < last[2] < 2**31 - 1


def test_ids_are_the_owners_to_pass_over(login_url, conn):
    with connect(login_url(API), application_name="test") as login, pytest.raises(Forbidden):
        pass_over_ids(login, 1000)

    [first] = insert_records(conn, insert_table(conn), [{}])
    assert first.id == 1


def test_a_database_without_tables_was_not_restored(empty_database_url):
    with connect(empty_database_url, application_name="test") as conn, pytest.raises(NotFound):
        pass_over_ids(conn, 1000)
