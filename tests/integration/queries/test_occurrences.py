from shared.queries.occurrences import consumed_identities, is_window_consumed
from tests.builders_db import NOW, insert_state, insert_table


def _consume(conn, state, record_id, identity):
    conn.execute(
        "INSERT INTO occurrence (trigger_ref, record_id, identity, by_run, consumed_at)"
        " VALUES (%s, %s, %s, true, %s)",
        [state.ref, record_id, identity, NOW],
    )


def test_all_that_the_records_of_a_page_have_consumed_is_known(conn):
    table = insert_table(conn)
    state, other = insert_state(conn, table), insert_state(conn, table)
    for record_id, identity in ((1, "2026-01-01"), (1, "2026-01-02"), (2, "2026-01-01")):
        _consume(conn, state, record_id, identity)
    _consume(conn, other, 3, "2026-01-01")

    consumed = consumed_identities(conn, trigger_ref=state.ref, record_ids=[1, 3, 4])

    assert consumed == {(1, "2026-01-01"), (1, "2026-01-02")}


def test_an_empty_page_has_consumed_nothing(conn):
    state = insert_state(conn, insert_table(conn))

    assert consumed_identities(conn, trigger_ref=state.ref, record_ids=[]) == set()


def test_a_window_is_consumed_by_its_own_trigger(conn):
    table = insert_table(conn)
    state, other = (insert_state(conn, table, kind="daily") for _ in range(2))
    _consume(conn, state, 0, "2026-07-25T09:00:00Z")

    assert is_window_consumed(conn, trigger_ref=state.ref, identity="2026-07-25T09:00:00Z")
    assert not is_window_consumed(conn, trigger_ref=state.ref, identity="2026-07-25T10:00:00Z")
    assert not is_window_consumed(conn, trigger_ref=other.ref, identity="2026-07-25T09:00:00Z")
