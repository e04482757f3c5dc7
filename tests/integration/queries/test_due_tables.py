from datetime import timedelta

from shared.queries.due_tables import (
    claim_table,
    claim_table_to_scan,
    list_tables_to_scan,
    mark_scanned,
    next_look_at,
    tables_with_look_due,
)
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    NOW,
    insert_records,
    insert_state,
    insert_table,
)


def _clock(conn, **of_table):
    """Insert a table with an interval trigger that is due."""
    table = insert_table(conn, triggers=[], **of_table)
    insert_state(conn, table, kind="interval", next_due_at=LONG_AGO)
    return table


def _scanned_at(conn, table):
    return conn.execute("SELECT scanned_at FROM custom_table WHERE id = %s", [table.id]).fetchone()[
        0
    ]


def test_tables_to_scan_are_those_that_live_and_have_triggers(conn):
    late = insert_table(conn, triggers=[], scanned_at=NOW)
    early = insert_table(conn, triggers=[], scanned_at=LONG_AGO)
    insert_table(conn)
    insert_table(conn, triggers=[], trashed_at=NOW)

    assert list_tables_to_scan(conn) == [(early.id, LONG_AGO), (late.id, NOW)]
    assert list_tables_to_scan(conn, limit=1) == [(early.id, LONG_AGO)]


def test_a_table_is_claimed_by_one_tick_at_a_time(conn, other_conn):
    table = insert_table(conn, triggers=[])

    with conn.transaction():
        assert claim_table(conn, table.id)
        assert not claim_table(other_conn, table.id)

    assert claim_table(other_conn, table.id)


def test_a_claimed_table_takes_records_and_inserts_do_not_hide_a_table(conn, other_conn):
    table = insert_table(conn, triggers=[])

    with conn.transaction():
        assert claim_table(conn, table.id)
        assert len(insert_records(other_conn, table, [{}])) == 1
    with conn.transaction():
        insert_records(conn, table, [{}])
        assert claim_table(other_conn, table.id)


def test_a_table_without_triggers_or_in_the_trash_is_not_claimed(conn):
    assert not claim_table(conn, insert_table(conn).id)
    assert not claim_table(conn, insert_table(conn, triggers=[], trashed_at=NOW).id)


def test_a_table_that_another_tick_has_scanned_meanwhile_is_not_claimed(conn, other_conn):
    table = insert_table(conn, triggers=[], scanned_at=LONG_AGO)
    seen = {"scanned_at": LONG_AGO, "now": NOW}

    with conn.transaction():
        assert claim_table_to_scan(conn, table.id, **seen)
        assert not claim_table_to_scan(other_conn, table.id, **seen)

    assert not claim_table_to_scan(other_conn, table.id, **seen)
    assert _scanned_at(conn, table) == NOW


def test_a_table_that_failed_counts_as_scanned(conn):
    table = insert_table(conn, triggers=[])

    mark_scanned(conn, table.id, now=NOW)

    assert _scanned_at(conn, table) == NOW


def test_tables_with_due_clock_triggers_are_named_once(conn):
    table = _clock(conn)
    insert_state(conn, table, kind="daily", next_due_at=NOW)
    ahead = insert_table(conn, triggers=[])
    insert_state(conn, ahead, kind="daily", next_due_at=NOW + timedelta(seconds=1))
    insert_state(conn, ahead, kind="daily", next_due_at=None)
    insert_state(conn, ahead, kind="daily", next_due_at=LONG_AGO, retired_at=NOW)

    assert tables_with_look_due(conn, now=NOW, limit=10) == [table.id]


def test_a_trashed_table_wants_no_look(conn):
    _clock(conn, trashed_at=NOW)

    assert tables_with_look_due(conn, now=NOW, limit=10) == []
    assert next_look_at(conn) is None


def test_the_next_look_at_a_clock_trigger_is_the_earliest(conn):
    table = insert_table(conn, triggers=[])
    for at in (FAR_OFF, NOW, None):
        insert_state(conn, table, kind="daily", next_due_at=at)

    assert next_look_at(conn) == NOW
