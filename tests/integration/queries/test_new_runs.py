from datetime import UTC, datetime, timedelta

import pytest
from psycopg.errors import LockNotAvailable

from shared.domain.work import Reference
from shared.evaluator.date_trigger import Due
from shared.queries.new_runs import Window, has_active_run, insert_clock_run, insert_date_runs
from shared.queries.trigger_runs import delete_run
from tests.builders_db import (
    NOW,
    insert_definition,
    insert_records,
    insert_run,
    insert_state,
    insert_table,
    row_of,
    trigger_id,
)

DAY = "2026-07-01"
DAY_AT = datetime(2026, 7, 1, tzinfo=UTC)
NINE = Window(at=NOW, identity="2026-07-25T09:00:00Z", key="20260725T0900")
TEN = Window(at=NOW + timedelta(hours=1), identity="2026-07-25T10:00:00Z", key="20260725T1000")


def _due(record, *, identity=DAY, version=1):
    return Due(record.id, version, identity, DAY_AT)


def _insert(conn, state, due, *, announced=True):
    hash = insert_definition(conn, state.tenant_id)
    return insert_date_runs(conn, state, due, definition_hash=hash, announced=announced, now=NOW)


def _insert_window(conn, state, window=NINE, *, announced=True):
    hash = insert_definition(conn, state.tenant_id)
    return insert_clock_run(conn, state, window, definition_hash=hash, announced=announced, now=NOW)


def _ledger(conn):
    return conn.execute(
        "SELECT record_id, identity FROM occurrence WHERE by_run ORDER BY record_id, identity"
    ).fetchall()


def _runs(conn):
    return conn.execute("SELECT record_id, identity FROM trigger_run ORDER BY id").fetchall()


@pytest.fixture
def table(conn):
    return insert_table(conn)


@pytest.fixture
def state(conn, table):
    return insert_state(conn, table)


@pytest.fixture
def clock(conn, table):
    return insert_state(conn, table, kind="interval")


def test_each_due_record_gets_a_run_and_a_ledger_row(conn, table, state):
    first, second = insert_records(conn, table, [{"c1": "a"}, {"c1": "b"}])

    references = _insert(conn, state, [_due(second), _due(first, identity="2026-07-02")])

    assert len(references) == 2
    assert _ledger(conn) == [(first.id, "2026-07-02"), (second.id, DAY)]
    assert sorted(_runs(conn)) == _ledger(conn)


def test_a_run_carries_the_row_and_where_it_comes_from(conn, table, state):
    (record,) = insert_records(conn, table, [{"c1": "a"}])

    (reference,) = _insert(conn, state, [_due(record)])

    row = row_of(conn, "trigger_run", reference.id)
    assert (row["trigger_id"], row["trigger_ref"]) == (state.trigger_id, state.ref)
    assert (row["kind"], row["snapshot"]) == ("date_column_reached", {"c1": "a"})
    assert row["lease_token"] == str(reference.token)
    assert row["scheduled_for"].startswith("2026-07-01T00:00")
    assert not row["urgent"]


@pytest.mark.parametrize(("announced", "announcements", "seconds"), [(True, 1, 60), (False, 0, 0)])
def test_a_run_may_be_born_announced(conn, table, state, clock, announced, announcements, seconds):
    (record,) = insert_records(conn, table, [{}])

    _insert(conn, state, [_due(record)], announced=announced)
    _insert_window(conn, clock, announced=announced)

    born = conn.execute("SELECT announcements, announce_at, next_attempt_at FROM trigger_run")
    assert born.fetchall() == [(announcements, NOW + timedelta(seconds=seconds), NOW)] * 2


def test_an_identity_is_consumed_once(conn, table, state):
    first, second = insert_records(conn, table, [{}, {}])

    assert len(_insert(conn, state, [_due(first)])) == 1
    assert len(_insert(conn, state, [_due(first), _due(second)])) == 1
    assert len(_runs(conn)) == len(_ledger(conn)) == 2


def test_another_value_of_the_record_is_another_identity(conn, table, state):
    (record,) = insert_records(conn, table, [{}])

    _insert(conn, state, [_due(record)])

    assert len(_insert(conn, state, [_due(record, identity="2026-07-02")])) == 1


def test_another_trigger_consumes_for_itself(conn, table, state):
    (record,) = insert_records(conn, table, [{}])

    _insert(conn, state, [_due(record)])

    assert len(_insert(conn, insert_state(conn, table), [_due(record)])) == 1


def test_a_record_written_since_it_was_judged_is_left_out(conn, table, state):
    (record,) = insert_records(conn, table, [{}], version=2)

    assert _insert(conn, state, [_due(record, version=1)]) == []
    assert _ledger(conn) == []


def test_a_record_deleted_since_it_was_judged_is_left_out(conn, table, state):
    (record,) = insert_records(conn, table, [{}], deleted_at=NOW)

    assert _insert(conn, state, [_due(record)]) == []
    assert _ledger(conn) == []


def test_nothing_due_inserts_nothing(conn, state):
    assert _insert(conn, state, []) == []


def test_a_page_of_ten_thousand_due_records_is_one_statement(conn, table, state):
    conn.execute(
        "INSERT INTO record (tenant_id, table_id, data, created_at, updated_at)"
        " SELECT %s, %s, '{}', %s, %s FROM generate_series(1, 10000)",
        [table.tenant_id, table.id, NOW, NOW],
    )
    ids = [id for (id,) in conn.execute("SELECT id FROM record")]

    references = _insert(conn, state, [Due(id, 1, DAY, DAY_AT) for id in ids])

    assert len({reference.id for reference in references}) == 10_000
    assert len(_ledger(conn)) == 10_000


def test_the_second_of_two_ticks_waits_and_then_finds_the_identity_consumed(
    conn, other_conn, table, state
):
    (record,) = insert_records(conn, table, [{}])
    other_conn.execute("SET lock_timeout = '50ms'")

    with conn.transaction():
        assert len(_insert(conn, state, [_due(record)])) == 1
        with pytest.raises(LockNotAvailable):
            _insert(other_conn, state, [_due(record)])

    assert _insert(other_conn, state, [_due(record)]) == []
    assert len(_runs(conn)) == 1


def test_deleting_a_run_leaves_the_ledger(conn, table, state):
    (record,) = insert_records(conn, table, [{}])
    (reference,) = _insert(conn, state, [_due(record)])
    conn.execute(
        "UPDATE trigger_run SET status = 'done', finished_at = %s, announce_at = NULL,"
        " next_attempt_at = NULL",
        [NOW],
    )

    assert delete_run(conn, table, reference.id)

    assert _insert(conn, state, [_due(record)]) == []


def test_a_window_gets_a_run_and_a_ledger_row(conn, table, clock):
    reference = _insert_window(conn, clock)

    assert isinstance(reference, Reference)
    row = row_of(conn, "trigger_run", reference.id)
    assert (row["kind"], row["identity"], row["window_key"]) == (
        "interval",
        NINE.identity,
        NINE.key,
    )
    assert (row["record_id"], row["snapshot"]) == (None, None)
    assert row["scheduled_for"].startswith("2026-07-25T09:00")
    assert _ledger(conn) == [(0, NINE.identity)]


@pytest.mark.parametrize("status", ["pending", "running"])
def test_an_active_run_fences_a_later_window(conn, table, clock, status):
    insert_run(
        conn,
        table,
        kind="interval",
        trigger_id=clock.trigger_id,
        trigger_ref=clock.ref,
        status=status,
    )

    assert has_active_run(conn, clock.ref)
    assert _insert_window(conn, clock, TEN) == "fenced"
    assert _ledger(conn) == []


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_run_that_has_ended_is_no_fence(conn, table, clock, status):
    insert_run(conn, table, kind="interval", trigger_ref=clock.ref, status=status)

    assert not has_active_run(conn, clock.ref)
    assert isinstance(_insert_window(conn, clock, TEN), Reference)


def test_a_window_that_was_consumed_leaves_no_run(conn, clock):
    first = _insert_window(conn, clock)
    conn.execute("DELETE FROM trigger_run WHERE id = %s", [first.id])

    with conn.transaction():
        assert _insert_window(conn, clock) == "consumed"

    assert _runs(conn) == []
    assert _ledger(conn) == [(0, NINE.identity)]


def test_a_refused_window_spares_the_rest_of_the_transaction(conn, table, clock):
    first = _insert_window(conn, clock)
    conn.execute("DELETE FROM trigger_run WHERE id = %s", [first.id])
    other = insert_state(conn, table, kind="cron", trigger_id=trigger_id())

    with conn.transaction():
        _insert_window(conn, clock)
        kept = _insert_window(conn, other)

    assert _runs(conn) == [(None, NINE.identity)]
    assert isinstance(kept, Reference)


def test_runs_of_one_date_trigger_do_not_fence_each_other(conn, table, state):
    records = insert_records(conn, table, [{}, {}])

    assert len(_insert(conn, state, [_due(record) for record in records])) == 2
    assert not has_active_run(conn, state.ref)


def test_the_second_of_two_ticks_on_a_window_waits_and_is_fenced(conn, other_conn, clock):
    other_conn.execute("SET lock_timeout = '50ms'")

    with conn.transaction():
        _insert_window(conn, clock)
        with pytest.raises(LockNotAvailable):
            _insert_window(other_conn, clock)

    assert _insert_window(other_conn, clock) == "fenced"
