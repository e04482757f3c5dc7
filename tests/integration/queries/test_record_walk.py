from datetime import timedelta

import pytest

from shared.queries.due_values import DueValue, put_due_values
from shared.queries.record_walk import Audit, Stretch, walk_rows, walk_stretch, walk_whole
from tests.builders_db import FAR_OFF, LONG_AGO, NOW, insert_records, insert_state, insert_table


@pytest.fixture
def table(conn):
    return insert_table(conn)


@pytest.fixture
def state(conn, table):
    return insert_state(conn, table)


def _audit(table, *, ref=0, before=None, identity_length=16):
    return Audit(
        table_id=table.id,
        trigger_ref=ref,
        column_id="c2",
        identity_length=identity_length,
        before=before,
    )


def _stretch(conn, table, *, after=None, up_to=None, limit=10, **audit):
    return walk_stretch(conn, _audit(table, **audit), after=after, up_to=up_to, limit=limit)


def _rows(conn, state, record_ids, *, when_ids=(), taken=False):
    return walk_rows(
        conn,
        table_id=state.table_id,
        trigger_ref=state.ref,
        column_id="c2",
        when_ids=when_ids,
        record_ids=record_ids,
        taken=taken,
    )


def _place(record):
    return record.created_at, record.id


def test_a_row_has_the_one_cell_and_those_that_when_names(conn, table, state):
    data = {"c1": "a", "c2": "2026-07-25", "c3": 5}
    (record,) = insert_records(conn, table, [data], version=4)

    (row,) = _rows(conn, state, [record.id], when_ids=["c3", "c9"])

    assert (row.record_id, row.version) == (record.id, 4)
    assert (row.cell, row.data) == ("2026-07-25", {"c3": 5, "c9": None})
    assert row.look_at is None


def test_without_when_no_other_cell_is_shipped(conn, table, state):
    (record,) = insert_records(conn, table, [{"c1": "a"}])

    (row,) = _rows(conn, state, [record.id])

    assert (row.cell, row.data) == (None, {})


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, None), ("", ""), (" 2026-07-25 ", " 2026-07-25 "), (20260725, "20260725"), ([], "[]")],
)
def test_a_cell_is_shipped_as_text(conn, table, state, cell, text):
    (record,) = insert_records(conn, table, [{"c2": cell}])

    assert _rows(conn, state, [record.id])[0].cell == text


def test_rows_are_found_by_id(conn, table, state):
    records = insert_records(conn, table, [{"c2": "2026-07-25", "c3": number} for number in (1, 2)])

    rows = _rows(conn, state, [records[1].id, records[0].id, 404], when_ids=["c3"])

    assert [row.data for row in rows] == [{"c3": 1}, {"c3": 2}]


def test_a_row_tells_its_entry_in_the_due_index_of_this_trigger(conn, table, state):
    (record,) = insert_records(conn, table, [{}])
    other = insert_state(conn, table)
    entries = [
        DueValue(trigger_ref=ref, record_id=record.id, version=1, fire_at=at)
        for ref, at in ((state.ref, FAR_OFF), (other.ref, FAR_OFF + timedelta(days=1)))
    ]
    put_due_values(conn, tenant_id=table.tenant_id, entries=entries)

    assert [row.look_at for row in _rows(conn, state, [record.id])] == [FAR_OFF]
    for when_ids in ([], ["c3"]):
        (row,) = _rows(conn, state, [record.id], when_ids=when_ids, taken=True)
        assert row.look_at is None


def test_deleted_records_and_those_of_other_tables_are_not_walked(conn, table, state):
    (deleted,) = insert_records(conn, table, [{}], deleted_at=NOW)
    (foreign,) = insert_records(conn, insert_table(conn), [{}])

    assert _stretch(conn, table) == Stretch(count=0, last=None, record_ids=[])
    assert _rows(conn, state, [deleted.id, foreign.id]) == []


def test_the_walk_goes_by_creation_then_by_id(conn, table):
    late = insert_records(conn, table, [{}], created_at=NOW)
    early = insert_records(conn, table, [{}, {}])
    twin = insert_records(conn, table, [{}], created_at=LONG_AGO)
    in_order = [early[0], twin[0], early[1], late[0]]

    for count in range(1, 5):
        stretch = _stretch(conn, table, limit=count)

        assert sorted(stretch.record_ids) == sorted(one.id for one in in_order[:count])
        assert (stretch.count, stretch.last) == (count, _place(in_order[count - 1]))


def test_the_walk_goes_on_behind_a_place_and_up_to_another(conn, table):
    records = insert_records(conn, table, [{} for _ in range(6)])

    stretch = _stretch(conn, table, after=_place(records[1]), up_to=_place(records[3]))

    assert stretch == Stretch(
        count=2, last=_place(records[3]), record_ids=[records[2].id, records[3].id]
    )


def test_records_made_in_one_instant_are_told_apart(conn, table):
    records = [insert_records(conn, table, [{}])[0] for _ in range(4)]

    first = _stretch(conn, table, limit=3)
    second = _stretch(conn, table, after=first.last, limit=3)

    assert first.last == _place(records[2])
    assert second.record_ids == [records[3].id]


def test_rows_whose_cell_is_not_less_than_the_bound_count_and_want_no_look(conn, table):
    cells = ["2026-07-25", "2026-07-26", " 2030-01-01", "2026-07-25 23:59", "soon", "Ä", None, 7]
    records = insert_records(conn, table, [{"c2": cell} for cell in cells])

    stretch = _stretch(conn, table, before="2026-07-26")

    assert (stretch.count, stretch.last) == (8, _place(records[7]))
    assert stretch.record_ids == [records[place].id for place in (0, 2, 3)]


def test_without_a_bound_every_row_wants_a_look(conn, table):
    records = insert_records(conn, table, [{"c2": "2099-01-01"}, {}, {"c2": None}])

    assert _stretch(conn, table).record_ids == [record.id for record in records]


def test_what_the_driver_cannot_read_is_walked_over(conn, table):
    (record,) = insert_records(conn, table, [{}])
    conn.execute("UPDATE record SET data = %s", ['{"c2": ' + "9" * 5000 + "}"])

    assert _stretch(conn, table).record_ids == [record.id]


@pytest.mark.parametrize(("limit", "is_whole"), [(2, False), (3, False), (4, True)])
def test_a_table_smaller_than_the_limit_is_looked_at_whole(conn, table, limit, is_whole):
    records = insert_records(conn, table, [{"c2": "2026-07-25"}, {"c2": "2099-01-01"}, {}])
    insert_records(conn, table, [{"c2": "2026-07-25"}], deleted_at=NOW)

    def whole(before):
        return walk_whole(conn, _audit(table, before=before), limit=limit)

    every = [record.id for record in records] if is_whole else None
    near = [records[0].id] if is_whole else None
    assert (whole(None) and sorted(whole(None)), whole("2026-07-26")) == (every, near)


@pytest.mark.parametrize(
    ("identity_length", "consumed", "cell"),
    [
        (16, "2020-01-01 09:00", "2020-01-01 09:00"),
        (16, "2020-01-01 09:00", "2020-01-01T09:00:30Z"),
        (16, "2020-01-01 09:00", "2020-01-01 09:00 and more"),
        (10, "2020-01-01", "2020-01-01 23:59"),
    ],
)
def test_a_row_that_has_fired_with_its_cell_wants_no_look(
    conn, table, state, identity_length, consumed, cell
):
    (record,) = insert_records(conn, table, [{"c2": cell}])
    _consume(conn, state.ref, record.id, consumed)
    near = {"before": "2026-07-26", "identity_length": identity_length}

    assert _stretch(conn, table, ref=state.ref, **near).record_ids == []
    assert walk_whole(conn, _audit(table, ref=state.ref, **near), limit=10) == []


@pytest.mark.parametrize(
    ("identity_length", "consumed", "cell"),
    [
        (16, "2020-01-01 09:00", "2020-01-01 09:01"),
        (16, "2020-01-01", "2020-01-01"),
        (16, "2020-01-01 09:00", " 2020-01-01 09:00"),
        (10, "2020-01-01 09:00", "2020-01-01 09:00"),
        (10, "2020-01-01", "2020-01-02"),
    ],
)
def test_a_row_whose_cell_may_be_another_value_wants_a_look(
    conn, table, state, identity_length, consumed, cell
):
    (record,) = insert_records(conn, table, [{"c2": cell}])
    _consume(conn, state.ref, record.id, consumed)
    near = {"before": "2026-07-26", "identity_length": identity_length}

    assert _stretch(conn, table, ref=state.ref, **near).record_ids == [record.id]


def test_what_others_have_consumed_does_not_count(conn, table, state):
    cell = "2020-01-01 09:00"
    record, other = insert_records(conn, table, [{"c2": cell}, {"c2": cell}])
    _consume(conn, insert_state(conn, table).ref, record.id, cell)
    _consume(conn, state.ref, other.id, cell)

    assert _stretch(conn, table, ref=state.ref, before="2026-07-26").record_ids == [record.id]


def test_without_a_bound_rows_that_have_fired_want_a_look_too(conn, table, state):
    (record,) = insert_records(conn, table, [{"c2": "2020-01-01 09:00"}])
    _consume(conn, state.ref, record.id, "2020-01-01 09:00")

    assert _stretch(conn, table, ref=state.ref).record_ids == [record.id]


def _consume(conn, ref, record_id, identity):
    conn.execute(
        "INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)"
        " VALUES (%s, %s, %s, true, %s)",
        [ref, record_id, identity, NOW],
    )
