from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.errors import LockNotAvailable

from shared.domain.columns import Column
from shared.errors import NotFound, StaleVersion
from shared.queries.custom_tables import (
    find_table,
    get_table,
    insert_table,
    list_tables,
    list_tables_by_id,
    lock_table,
    restore_table,
    store_triggers,
    trash_table,
    update_definition,
)
from tests import builders_db
from tests.builders_db import COLUMNS, LONG_AGO, NOW, insert_records, insert_tenant


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


@pytest.fixture
def table(conn, tenant_id):
    return builders_db.insert_table(conn, tenant_id=tenant_id)


def _ids(tables):
    return [table.id for table in tables]


def test_a_new_table_has_its_columns_and_no_triggers(conn, tenant_id):
    channel_id = uuid4()
    columns = (*COLUMNS, Column(id="c4", name="kind", type="select", options=("a", "b")))

    table = insert_table(
        conn,
        tenant_id=tenant_id,
        channel_id=channel_id,
        name="案件",
        columns=columns,
        columns_made=4,
        now=NOW,
    )

    assert find_table(conn, table.id) == table
    assert (table.name, table.columns, table.columns_made) == ("案件", columns, 4)
    assert (table.triggers, table.revision, table.channel_id) == (None, 1, channel_id)


def test_an_edit_is_a_new_revision(conn, table):
    edited = replace(table, name="other", columns=COLUMNS[:1], triggers=[{"id": "trg"}])

    stored = update_definition(conn, edited, now=NOW)

    assert stored == replace(edited, revision=2, updated_at=NOW)
    assert get_table(conn, table.id) == stored


def test_an_edit_of_an_older_revision_is_refused(conn, table):
    update_definition(conn, table, now=NOW)

    with pytest.raises(StaleVersion):
        update_definition(conn, table, now=NOW)


def test_a_trashed_table_is_found_only_by_who_looks_for_it(conn, table):
    assert trash_table(conn, table.id, now=NOW)

    assert find_table(conn, table.id).trashed_at == NOW
    with pytest.raises(NotFound):
        get_table(conn, table.id)
    with pytest.raises(NotFound):
        lock_table(conn, table.id)
    with pytest.raises(StaleVersion):
        update_definition(conn, replace(table, revision=2), now=NOW)


def test_a_table_is_trashed_and_restored_once(conn, table):
    assert not restore_table(conn, table.id, now=NOW)
    assert trash_table(conn, table.id, now=NOW)
    assert not trash_table(conn, table.id, now=NOW)
    assert restore_table(conn, table.id, now=NOW)

    restored = get_table(conn, table.id)
    assert restored.revision == 3


def test_an_unknown_table_is_not_found(conn):
    assert find_table(conn, uuid4()) is None
    with pytest.raises(NotFound):
        lock_table(conn, uuid4())


def test_tables_are_listed_oldest_first_page_by_page(conn, tenant_id):
    days = [
        builders_db.insert_table(
            conn, tenant_id=tenant_id, created_at=LONG_AGO + timedelta(days=day)
        )
        for day in range(3)
    ]

    first = list_tables(conn, tenant_id=tenant_id, limit=2)
    after = (first[-1].created_at, first[-1].id)
    second = list_tables(conn, tenant_id=tenant_id, after=after, limit=2)

    assert _ids(first + second) == _ids(days)


def test_tables_are_listed_by_tenant_channel_and_trash(conn, tenant_id):
    channel_id = uuid4()
    plain = builders_db.insert_table(conn, tenant_id=tenant_id)
    of_channel = builders_db.insert_table(conn, tenant_id=tenant_id, channel_id=channel_id)
    trashed = builders_db.insert_table(conn, tenant_id=tenant_id, trashed_at=NOW)
    foreign = builders_db.insert_table(conn)

    def listed(tenant_id, **more):
        return set(_ids(list_tables(conn, tenant_id=tenant_id, limit=10, **more)))

    assert listed(tenant_id) == {plain.id, of_channel.id}
    assert listed(tenant_id, channel_id=channel_id) == {of_channel.id}
    assert listed(tenant_id, trashed=True) == {trashed.id}
    assert listed(None) == {plain.id, of_channel.id, foreign.id}
    assert set(_ids(list_tables_by_id(conn, [trashed.id, foreign.id]))) == {trashed.id, foreign.id}


def test_an_edit_waits_for_another_edit_but_records_do_not(conn, other_conn, table):
    other_conn.execute("SET lock_timeout = '50ms'")

    with conn.transaction():
        lock_table(conn, table.id)
        assert len(insert_records(other_conn, table, [{}])) == 1
        with pytest.raises(LockNotAvailable):
            lock_table(other_conn, table.id)


def test_triggers_are_stored_as_a_new_revision_also_in_the_trash(conn, tenant_id):
    table = builders_db.insert_table(conn, tenant_id=tenant_id, trashed_at=NOW)

    store_triggers(conn, table.id, triggers=[{"id": "trg"}], now=NOW)

    stored = find_table(conn, table.id)
    assert (stored.triggers, stored.revision) == ([{"id": "trg"}], 2)
