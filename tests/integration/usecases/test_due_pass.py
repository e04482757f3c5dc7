"""The due pass: the same runs as the tick's, without a walk; nothing stays at the index's head."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.db.connection import connect
from shared.effects.record_writes import delete_record, update_record
from shared.lifecycle import wait_until
from shared.queries.custom_tables import get_table, list_tables_by_id
from shared.usecases.due_dates import fire_due_dates
from shared.usecases.due_pass import due_pass, next_due_at
from shared.usecases.manage_tables import restore_table, trash_table
from tests.builders import a_trigger
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    DAILY,
    DATE,
    DAY,
    INTERVAL,
    MINUTE,
    OTHER_ID,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    at,
    created,
    due_index,
    end_runs,
    fail_inserts,
    fired,
    forbid_runs_of,
    hear,
    ledger,
    poison_cell,
    poison_table,
    rewrite,
    runs,
    save,
    state_of,
    waits_for_a_lock,
    write,
)


def _dated(conn, *cells, **parts):
    """Return a table with a date trigger, and its records."""
    table = save(conn, insert_table(conn), a_known(schedule=DATE, **parts))
    return table, write(conn, table, *cells)


def _born(conn, *, now=NOW, **options):
    """Return how many runs a due pass makes."""
    return len(due_pass(conn, now=now, **options).references)


def test_what_is_due_gets_its_run_and_leaves_the_index(conn):
    _, [due, ahead] = _dated(conn, OVERDUE, AHEAD)

    assert _born(conn) == 1

    [run] = runs(conn)
    assert (run["record_id"], run["identity"], run["status"]) == (due.id, OVERDUE, "pending")
    assert (run["snapshot"], run["scheduled_for"]) == ({"c2": OVERDUE}, at(OVERDUE))
    assert ledger(conn) == [(due.id, OVERDUE)]
    assert list(due_index(conn)) == [ahead.id]
    assert created(conn) == 0


def test_the_definitions_of_many_tables_are_read_a_few_at_a_time(conn, monkeypatch):
    monkeypatch.setattr("shared.usecases.due_dates._TRIGGERS_AT_ONCE", 2)
    read = []
    monkeypatch.setattr(
        "shared.usecases.due_dates.list_tables_by_id",
        lambda conn, table_ids: read.append(len(table_ids)) or list_tables_by_id(conn, table_ids),
    )
    tables = [_dated(conn, OVERDUE, AHEAD)[0] for _ in range(5)]

    assert _born(conn) == 5
    assert read == [2, 2, 1]
    assert {run["table_id"] for run in runs(conn)} == {table.id for table in tables}


def test_it_finds_a_row_wherever_the_walk_is(conn):
    table, records = _dated(conn, *[AHEAD] * 30)
    created(conn, record_limit=1)
    rewrite(conn, table, records[20], OVERDUE)

    assert _born(conn) == 1


def test_nothing_due_looks_at_nothing(conn):
    _dated(conn, AHEAD)

    result = due_pass(conn, now=NOW)

    assert (result.looked_at, result.references, result.more) == (0, (), False)


def test_an_entry_that_points_too_early_moves_ahead(conn):
    _, [record] = _dated(conn, AHEAD)
    conn.execute("UPDATE due_value SET fire_at = '2020-01-01Z'")

    assert _born(conn) == 0

    assert due_index(conn) == {record.id: at(AHEAD)}


def _refused_by_when(conn):
    _dated(conn, OVERDUE, when=[{"column": "title", "op": "not_empty"}])


def _switched_off(conn):
    _dated(conn, OVERDUE, enabled=False)


def _removed(conn):
    table, _ = _dated(conn, OVERDUE)
    save(conn, table)


def _trashed(conn):
    table, _ = _dated(conn, OVERDUE)
    trash_table(conn, table.id, now=NOW)


def _fired_before(conn):
    _dated(conn, OVERDUE)
    created(conn)
    end_runs(conn)
    conn.execute("DELETE FROM trigger_run")


def _deleted(conn):
    _dated(conn, OVERDUE)
    conn.execute("UPDATE record SET deleted_at = updated_at")


def _emptied(conn):
    _dated(conn, OVERDUE)
    conn.execute("UPDATE record SET data = '{}'")


def _column_dropped(conn):
    _dated(conn, OVERDUE)
    conn.execute("UPDATE custom_table SET columns = '[]'")


def _unreadable(conn):
    table, _ = _dated(conn, OVERDUE)
    poison_table(conn, table)


def _at_the_end_of_time(conn):
    table, _ = _dated(conn, OVERDUE)
    conn.execute("UPDATE record SET data = %s", ['{"c2": "9999-12-31 23:59"}'])
    save(conn, table, a_known(schedule={**DATE, "offset_minutes": 60}))


@pytest.mark.parametrize(
    "arrange",
    [
        _refused_by_when,
        _switched_off,
        _removed,
        _trashed,
        _fired_before,
        _deleted,
        _emptied,
        _column_dropped,
        _unreadable,
        _at_the_end_of_time,
    ],
)
def test_an_entry_leaves_with_the_look_whatever_was_found(conn, arrange):
    arrange(conn)
    assert len(due_index(conn)) == 1

    result = due_pass(conn, now=NOW)

    assert (result.looked_at, result.references) == (1, ())
    assert due_index(conn) == {}
    assert runs(conn) == []


def test_a_write_brings_a_refused_row_back(conn):
    table, [record] = _dated(conn, OVERDUE, when=[{"column": "title", "op": "not_empty"}])
    assert _born(conn) == 0

    update_record(conn, get_table(conn, table.id), record.id, {"c1": "open"}, now=NOW)

    assert _born(conn) == 1


def test_an_edit_of_when_brings_refused_rows_back(conn):
    table, _ = _dated(conn, OVERDUE, when=[{"column": "title", "op": "not_empty"}])
    assert _born(conn) == 0

    save(conn, table, a_known(schedule=DATE))

    assert created(conn) == 1


def test_a_restore_brings_back_what_came_due_in_the_trash(conn):
    table, _ = _dated(conn, AHEAD)
    created(conn)
    trash_table(conn, table.id, now=NOW)
    assert _born(conn, now=NOW + DAY) == 0

    restore_table(conn, table.id, now=NOW + DAY)

    assert created(conn, now=NOW + DAY) == 1


def test_a_deleted_record_has_no_entry(conn):
    table, [record] = _dated(conn, OVERDUE)

    delete_record(conn, table, record.id, now=NOW)

    assert due_pass(conn, now=NOW).looked_at == 0


def test_a_record_that_cannot_be_read_stops_no_other_and_leaves_the_index(conn):
    _, records = _dated(conn, *[OVERDUE] * 6, when=[{"column": "amount", "op": "is_empty"}])
    poison_cell(conn, records[2], "c3")

    assert _born(conn) == 5

    assert due_index(conn) == {}


def test_a_trigger_that_fails_stops_no_other_and_leaves_the_index(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE), a_known(id=OTHER_ID, schedule=DATE))
    write(conn, table, OVERDUE, OVERDUE)
    forbid_runs_of(conn, TRIGGER_ID)

    assert _born(conn) == 2

    assert {run["trigger_id"] for run in runs(conn)} == {OTHER_ID}
    assert due_index(conn) == {}


def test_a_table_that_cannot_be_read_stops_no_other(conn):
    poisoned, _ = _dated(conn, OVERDUE)
    poison_table(conn, poisoned)
    _, [record] = _dated(conn, OVERDUE)

    assert _born(conn) == 1

    assert [one["record_id"] for one in runs(conn)] == [record.id]


@pytest.mark.parametrize(("failures", "count"), [(3, 1), (4, 0)])
def test_a_deadlock_begins_the_pass_again_three_times(conn, failures, count):
    _dated(conn, OVERDUE)
    fail_inserts(conn, "trigger_run", code="40P01", times=failures)

    result = due_pass(conn, now=NOW)

    assert len(result.references) == count
    assert len(due_index(conn)) == 1 - count


def test_a_failure_of_all_dates_does_not_keep_the_clocks_back(conn):
    table, _ = _dated(conn, OVERDUE)
    save(conn, table, a_known(schedule=DATE), a_trigger(schedule=INTERVAL))
    conn.execute(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'no';
        END $$;
        CREATE TRIGGER refuse BEFORE DELETE ON due_value FOR EACH ROW EXECUTE FUNCTION refuse()
        """
    )

    assert _born(conn) == 1

    assert [run["kind"] for run in runs(conn)] == ["interval"]
    assert len(due_index(conn)) == 1


def test_a_backlog_is_taken_in_passes_and_fairly_after_the_first(conn):
    flooded, _ = _dated(conn, *["2026-07-01"] * 9)
    small, _ = _dated(conn, OVERDUE)

    first = due_pass(conn, now=NOW, limit=3)
    assert (first.looked_at, first.more, first.fairly) == (3, True, True)
    second = due_pass(conn, now=NOW, limit=3, fairly=first.fairly)

    assert small.id in {run["table_id"] for run in runs(conn)}
    assert (second.looked_at, second.more) == (3, True)
    counts = [due_pass(conn, now=NOW, limit=3, fairly=True).looked_at for _ in range(2)]
    assert counts == [3, 1]
    assert len(runs(conn, flooded)) == 9


def test_a_fair_pass_that_comes_back_short_asks_for_one_more_look(conn):
    _dated(conn, OVERDUE)

    short = due_pass(conn, now=NOW, limit=3, fairly=True)

    assert (short.looked_at, short.more, short.fairly) == (1, True, False)


def test_two_passes_never_share_an_entry(conn, other_conn):
    table, _ = _dated(conn, OVERDUE)
    assert _born(conn) == 1  # or one would wait for the other's frozen definition
    write(conn, table, *[OVERDUE] * 4)

    with conn.transaction():
        looked_at, first = fire_due_dates(conn, fairly=False, limit=3, announced=False, now=NOW)
        second = due_pass(other_conn, now=NOW)

    assert (looked_at, len(first), second.looked_at) == (3, 3, 1)
    assert len(set(fired(conn))) == len(fired(conn)) == 5


@pytest.mark.parametrize("look", [created, _born])
def test_a_lock_that_cannot_be_had_sets_nothing_aside(conn, other_conn, look):
    _, [record] = _dated(conn, OVERDUE)
    conn.execute("SET lock_timeout = '10ms'")

    with other_conn.transaction(force_rollback=True):
        other_conn.execute(
            "INSERT INTO occurrence SELECT id, %s, %s, true, '2026-01-01Z' FROM trigger_state",
            [record.id, OVERDUE],
        )
        assert look(conn) == 0

    assert list(due_index(conn)) == [record.id]
    assert state_of(conn).cursor is None
    assert look(conn) == 1


def test_a_tick_that_meets_a_pass_in_the_same_rows_consumes_nothing_twice(
    conn, other_conn, database_url
):
    _dated(conn, *[OVERDUE] * 4)

    def tick_elsewhere():
        with connect(database_url, application_name="ticker") as ticker:
            return created(ticker)

    with ThreadPoolExecutor(1) as pool:
        with other_conn.transaction():
            fire_due_dates(other_conn, fairly=False, limit=9, announced=False, now=NOW)
            ticking = pool.submit(tick_elsewhere)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        assert ticking.result() == 0

    assert len(set(fired(conn))) == len(fired(conn)) == 4


def test_a_record_write_meets_a_pass_and_neither_loses(conn, other_conn, database_url):
    table, [record] = _dated(conn, OVERDUE)

    def write_elsewhere():
        with connect(database_url, application_name="writer") as writer:
            return rewrite(writer, table, record, "2026-07-25 08:30")

    with ThreadPoolExecutor(1) as pool:
        with other_conn.transaction():
            fire_due_dates(other_conn, fairly=False, limit=9, announced=False, now=NOW)
            writing = pool.submit(write_elsewhere)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        writing.result()

    assert _born(conn) == 1
    assert fired(conn) == [(record.id, OVERDUE), (record.id, "2026-07-25 08:30")]


def test_workers_are_told_of_runs_that_the_caller_does_not_publish(conn, other_conn):
    table, _ = _dated(conn, OVERDUE)
    save(conn, table, a_known(schedule=DATE), a_trigger())
    heard = hear(other_conn, "duebook_work")

    result = due_pass(conn, now=NOW, announced=True)
    assert heard() == 0
    assert {run["announcements"] for run in runs(conn)} == {1}
    assert len(result.references) == 2

    _dated(conn, OVERDUE)
    due_pass(conn, now=NOW)
    assert heard() == 1


def test_the_next_look_is_the_earliest_of_dates_and_clocks(conn):
    assert next_due_at(conn) is None
    table, _ = _dated(conn, AHEAD)
    assert next_due_at(conn) == at(AHEAD)

    save(conn, table, a_known(schedule=DATE), a_trigger(schedule=DAILY), now=NOW + MINUTE)
    due_pass(conn, now=NOW + MINUTE)

    assert next_due_at(conn) == at(AHEAD)
    save(conn, table, a_known(schedule=DATE), a_trigger(), now=NOW + MINUTE)
    assert next_due_at(conn) == NOW + MINUTE
