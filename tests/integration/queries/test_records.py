from datetime import timedelta

import pytest

from shared.domain.conditions import read_when
from shared.queries.records import MAX_ROWS, count_live, find_record, list_records
from tests.builders_db import COLUMNS, FAR_OFF, LONG_AGO, NOW, insert_records, insert_table


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _when(*predicates):
    read, faults = read_when(list(predicates), COLUMNS, on=None)
    assert not faults
    return read


BIG = _when({"column": "amount", "op": "gte", "value": 100})


def _pages(conn, table, *, limit, predicates=()):
    """Follow the listing to its end and return its pages of cells."""
    after = None
    while True:
        page = list_records(conn, table, after=after, limit=limit, predicates=predicates)
        yield [record.data for record in page.records]
        after = page.after
        if after is None:
            return


def test_records_are_listed_oldest_first_page_by_page(conn, table):
    rows = [{"c3": number} for number in range(5)]
    insert_records(conn, table, rows)
    insert_records(conn, insert_table(conn), [{"c3": 99}])

    assert list(_pages(conn, table, limit=2)) == [rows[:2], rows[2:4], rows[4:]]
    assert list(_pages(conn, table, limit=5)) == [rows]


def test_records_of_one_instant_are_listed_by_id(conn, table):
    for number in range(3):
        insert_records(conn, table, [{"c3": number}], created_at=NOW)

    assert list(_pages(conn, table, limit=2)) == [[{"c3": 0}, {"c3": 1}], [{"c3": 2}]]


def test_a_page_of_the_usual_length_tells_whether_others_follow(conn, table):
    rows = [{"c3": number} for number in range(101)]
    insert_records(conn, table, rows[:100])
    assert list(_pages(conn, table, limit=100)) == [rows[:100]]

    insert_records(conn, table, rows[100:], created_at=FAR_OFF)
    assert list(_pages(conn, table, limit=100)) == [rows[:100], rows[100:]]


def test_an_empty_table_is_one_empty_page(conn, table):
    assert list(_pages(conn, table, limit=2)) == [[]]


def test_deleted_records_are_neither_listed_nor_found_nor_counted(conn, table):
    (kept,) = insert_records(conn, table, [{"c1": "kept"}])
    (deleted,) = insert_records(conn, table, [{"c1": "deleted"}], deleted_at=NOW)

    assert list_records(conn, table, limit=10).records == [kept]
    assert find_record(conn, table, deleted.id) is None
    assert count_live(conn, table.id) == 1


def test_a_filtered_listing_has_only_what_matches(conn, table):
    insert_records(conn, table, [{"c3": amount} for amount in (100, 1, 200, 2, 300)])

    assert list(_pages(conn, table, limit=2, predicates=BIG)) == [
        [{"c3": 100}, {"c3": 200}],
        [{"c3": 300}],
    ]


def test_a_page_of_large_records_is_short_and_others_follow(conn, table, monkeypatch):
    monkeypatch.setattr("shared.queries.records.MAX_CHARACTERS", 100)
    rows = [{"c1": "x" * 80, "c3": amount} for amount in (100, 1, 2, 3, 200)]
    insert_records(conn, table, rows)

    assert list(_pages(conn, table, limit=9)) == [rows[:2], rows[2:4], rows[4:]]
    assert list(_pages(conn, table, limit=9, predicates=BIG)) == [rows[:1], [], rows[4:]]


def test_a_filter_that_nothing_matches_ends(conn, table):
    insert_records(conn, table, [{"c3": 1}])

    assert list(_pages(conn, table, limit=2, predicates=BIG)) == [[]]


@pytest.mark.parametrize("predicates", [(), BIG], ids=["all", "filtered"])
@pytest.mark.parametrize(("rows", "are_more"), [(MAX_ROWS, False), (MAX_ROWS + 1, True)])
def test_a_listing_looks_at_exactly_so_many_rows(conn, table, predicates, rows, are_more):
    conn.execute(
        "INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)"
        " SELECT %s, %s, '{}', %s, %s FROM generate_series(1, %s)",
        [table.tenant_id, table.id, LONG_AGO, LONG_AGO, rows],
    )

    page = list_records(conn, table, limit=MAX_ROWS, predicates=predicates)

    assert (page.after is not None, page.seen) == (are_more, rows)


def test_a_filtered_listing_looks_at_a_bounded_number_of_rows(conn, table):
    conn.execute(
        "INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)"
        " SELECT %s, %s, '{}', %s, %s FROM generate_series(1, 10500)",
        [table.tenant_id, table.id, LONG_AGO, LONG_AGO],
    )
    insert_records(conn, table, [{"c3": 100}], created_at=NOW)

    pages = list(_pages(conn, table, limit=2, predicates=BIG))

    assert pages == [[], [{"c3": 100}]]


def test_a_record_of_another_table_is_not_found(conn, table):
    (record,) = insert_records(conn, insert_table(conn), [{}])

    assert find_record(conn, table, record.id) is None


def test_a_listing_goes_on_behind_a_record_that_was_deleted(conn, table):
    records = insert_records(conn, table, [{"c3": number} for number in range(3)])
    after = (records[0].created_at, records[0].id)
    conn.execute("UPDATE record SET deleted_at = %s WHERE id = %s", [NOW, records[0].id])

    page = list_records(conn, table, after=after, limit=10)

    assert page.records == records[1:]


def test_a_record_inserted_behind_the_page_is_met(conn, table):
    insert_records(conn, table, [{"c3": 0}, {"c3": 1}])
    first = list_records(conn, table, limit=1)
    insert_records(conn, table, [{"c3": 2}], created_at=LONG_AGO + timedelta(days=1))

    second = list_records(conn, table, after=first.after, limit=10)

    assert [record.data["c3"] for record in second.records] == [1, 2]
