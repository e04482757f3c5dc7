from datetime import timedelta

import pytest

from shared.queries.due_values import DueValue, put_due_values
from shared.queries.record_walk import walk_keys, walk_page, walk_rows
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_records, insert_state, insert_table


@pytest.fixture
def table(conn):
    return insert_table(conn)


@pytest.fixture
def state(conn, table):
    return insert_state(conn, table)


def _page(conn, state, *, cursor=None, limit=10, column_id="c2", when_ids=()):
    return walk_page(
        conn,
        table_id=state.table_id,
        trigger_ref=state.ref,
        column_id=column_id,
        when_ids=when_ids,
        cursor=cursor,
        limit=limit,
    )


def _rows(conn, state, record_ids):
    return walk_rows(
        conn,
        table_id=state.table_id,
        trigger_ref=state.ref,
        column_id="c2",
        when_ids=["c3"],
        record_ids=record_ids,
    )


def test_a_row_has_the_one_cell_and_those_that_when_names(conn, table, state):
    data = {"c1": "a", "c2": "2026-07-25", "c3": 5}
    (record,) = insert_records(conn, table, [data], version=4)

    (row,) = _page(conn, state, when_ids=["c3", "c9"])

    assert (row.record_id, row.version, row.created_at) == (record.id, 4, LONG_AGO)
    assert (row.cell, row.data) == ("2026-07-25", {"c3": 5, "c9": None})
    assert row.look_at is None


def test_without_when_no_other_cell_is_shipped(conn, table, state):
    insert_records(conn, table, [{"c1": "a"}])

    (row,) = _page(conn, state)

    assert (row.cell, row.data) == (None, {})


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, None), ("", ""), (" 2026-07-25 ", " 2026-07-25 "), (20260725, "20260725"), ([], "[]")],
)
def test_a_cell_is_shipped_as_text(conn, table, state, cell, text):
    insert_records(conn, table, [{"c2": cell}])

    assert _page(conn, state)[0].cell == text


def test_the_walk_goes_by_creation_then_by_id(conn, table, state):
    late = insert_records(conn, table, [{}], created_at=NOW)
    early = insert_records(conn, table, [{}, {}])
    twin = insert_records(conn, table, [{}], created_at=LONG_AGO)

    ids = [row.record_id for row in _page(conn, state)]

    assert ids == [early[0].id, twin[0].id, early[1].id, late[0].id]


def test_the_walk_goes_on_behind_its_cursor(conn, table, state):
    records = insert_records(conn, table, [{} for _ in range(5)])
    cursor = (records[1].created_at, records[1].id)

    page = _page(conn, state, cursor=cursor, limit=2)

    assert [row.record_id for row in page] == [records[2].id, records[3].id]
    keys = walk_keys(conn, table_id=table.id, cursor=cursor, limit=2)
    assert [(key.record_id, key.created_at) for key in keys] == [
        (record.id, record.created_at) for record in records[2:4]
    ]


def test_deleted_records_and_those_of_other_tables_are_not_walked(conn, table, state):
    (deleted,) = insert_records(conn, table, [{}], deleted_at=NOW)
    (foreign,) = insert_records(conn, insert_table(conn), [{}])

    assert _page(conn, state) == []
    assert walk_keys(conn, table_id=table.id, cursor=None, limit=10) == []
    assert _rows(conn, state, [deleted.id, foreign.id]) == []


def test_a_row_tells_its_entry_in_the_due_index_of_this_trigger(conn, table, state):
    (record,) = insert_records(conn, table, [{}])
    other = insert_state(conn, table)
    entries = [
        DueValue(trigger_ref=ref, record_id=record.id, version=1, fire_at=at)
        for ref, at in ((state.ref, FAR_OFF), (other.ref, FAR_OFF + timedelta(days=1)))
    ]
    put_due_values(conn, tenant_id=table.tenant_id, entries=entries)

    assert [row.look_at for row in _page(conn, state)] == [FAR_OFF]


def test_rows_are_found_by_id(conn, table, state):
    records = insert_records(conn, table, [{"c2": "2026-07-25", "c3": number} for number in (1, 2)])

    rows = _rows(conn, state, [records[1].id, records[0].id, 404])

    assert [row.data for row in rows] == [{"c3": 1}, {"c3": 2}]
