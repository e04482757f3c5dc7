"""What a tick survives, and the runs it brings back (spec 1 §7)."""

import pytest

from shared.usecases.tick import tick
from tests.builders import a_trigger
from tests.builders_db import (
    FAR_OFF,
    LONG_AGO,
    NOW,
    insert_run,
    insert_table,
    insert_worker,
    row_of,
)
from tests.builders_delayed import insert_action
from tests.builders_staged import insert_change
from tests.integration.usecases.world import (
    DATE,
    OTHER_ID,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    created,
    fail_inserts,
    fired,
    forbid_runs_of,
    hear,
    ledger,
    poison_cell,
    poison_table,
    runs,
    save,
    state_of,
    write,
)


def _scanned_at(conn, table):
    return conn.execute("SELECT scanned_at FROM custom_table WHERE id = %s", [table.id]).fetchone()[
        0
    ]


def _tables(conn, count):
    """Return that many tables with an interval trigger each."""
    tables = [insert_table(conn) for _ in range(count)]
    for table in tables:
        save(conn, table, a_trigger())
    return tables


def test_a_table_that_cannot_be_read_stops_no_other_and_counts_as_scanned(conn):
    tables = _tables(conn, 3)
    poison_table(conn, tables[1])

    result = tick(conn, now=NOW)

    assert (result.tables_scanned, result.runs_created) == (3, 2)
    assert {_scanned_at(conn, table) for table in tables} == {NOW}


def test_a_trigger_that_fails_stops_no_other_of_its_table(conn):
    table = insert_table(conn)
    save(conn, table, a_trigger(), a_known(), a_trigger())
    forbid_runs_of(conn, TRIGGER_ID)

    assert created(conn) == 2

    assert state_of(conn).last_window_at is None
    assert [identity for _, identity in fired(conn)] == ["2026-07-25T09:00:00Z"] * 2


def test_a_record_that_cannot_be_read_is_set_aside_and_stops_no_other(conn):
    table = insert_table(conn)
    when = [{"column": "amount", "op": "gte", "value": 0}]
    save(conn, table, a_known(schedule=DATE, when=when))
    cells = [{"c2": OVERDUE, "c3": number} for number in range(9)]
    records = write(conn, table, *cells)
    for culprit in (records[0], records[5]):
        poison_cell(conn, culprit, "c3")

    assert created(conn) == 7

    assert state_of(conn).cursor == (records[-1].created_at, records[-1].id)
    assert {record_id for record_id, _ in fired(conn)} == {
        record.id for number, record in enumerate(records) if number not in (0, 5)
    }


def test_an_unforeseen_fault_with_one_record_spares_the_others_of_its_page(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    records = write(conn, table, *[OVERDUE] * 4)
    conn.execute(f"ALTER TABLE trigger_run ADD CHECK (record_id <> {records[2].id})")

    assert created(conn) == 3

    assert ledger(conn) == [(one.id, OVERDUE) for one in records if one is not records[2]]


def test_two_triggers_fire_though_the_first_one_fails_with_every_record(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE), a_known(id=OTHER_ID, schedule=DATE))
    write(conn, table, OVERDUE, OVERDUE)
    forbid_runs_of(conn, TRIGGER_ID)

    assert created(conn) == 2

    assert {run["trigger_id"] for run in runs(conn)} == {OTHER_ID}


def test_a_broken_stored_trigger_never_hides_a_healthy_one(conn):
    table = insert_table(conn)
    save(conn, table, a_known())
    conn.execute(
        "UPDATE custom_table SET triggers = %s::jsonb || triggers WHERE id = %s",
        [
            '[1, null, {"on": "schedule"}, {"on": "schedule", "schedule": {"type": "monthly"}}]',
            table.id,
        ],
    )

    assert created(conn) == 1


@pytest.mark.parametrize("code", ["40P01", "40001"])
@pytest.mark.parametrize(("failures", "count"), [(3, 1), (4, 0)])
def test_a_transaction_that_is_to_begin_again_does_so_three_times(conn, code, failures, count):
    table = insert_table(conn)
    save(conn, table, a_known())
    fail_inserts(conn, "trigger_run", code=code, times=failures)

    result = tick(conn, now=NOW)

    assert (result.tables_scanned, result.runs_created) == (1, count)
    assert _scanned_at(conn, table) == NOW


def test_a_run_that_lost_its_worker_is_taken_back(conn):
    run = insert_run(conn, status="running", worker_id=insert_worker(conn), leased_until=LONG_AGO)

    assert tick(conn, now=NOW).trigger_runs_requeued == 1

    assert row_of(conn, "trigger_run", run)["status"] == "pending"


def test_a_run_that_ends_with_its_last_worker_is_not_queued_again(conn):
    held = {"worker_id": insert_worker(conn), "leased_until": LONG_AGO}
    run = insert_run(conn, status="running", worker_losses=4, **held)

    assert tick(conn, now=NOW).trigger_runs_requeued == 0

    assert row_of(conn, "trigger_run", run)["status"] == "failed"


def test_a_run_whose_announcement_was_lost_is_offered_again(conn, other_conn):
    heard = hear(other_conn, "duebook_work")
    insert_run(conn, announcements=1)
    insert_run(conn, announcements=0)

    assert tick(conn, now=NOW).trigger_runs_requeued == 1

    assert heard() == 1


def test_a_scheduled_action_is_swept_and_counts_as_no_run(conn, other_conn):
    heard = hear(other_conn, "duebook_work")
    insert_action(conn, announcements=1)
    held = insert_action(conn, status="processing", leased_until=LONG_AGO)

    assert tick(conn, now=NOW).trigger_runs_requeued == 0

    assert row_of(conn, "scheduled_action", held)["status"] == "pending"
    assert heard() == 2


def test_an_approved_change_whose_announcement_was_lost_is_offered_again(conn, other_conn):
    heard = hear(other_conn, "duebook_work")
    for announcements in (0, 1, 2):
        insert_change(conn, status="approved", announcements=announcements)
    insert_change(conn, status="approved", announcements=1, announce_at=FAR_OFF)
    insert_change(conn)

    result = tick(conn, now=NOW)

    assert (result.staged_changes_requeued, result.trigger_runs_requeued) == (2, 0)
    assert heard() == 1


def test_a_sweep_of_changes_that_fails_counts_nothing_and_stops_no_other(conn):
    insert_change(conn, status="approved", announcements=1)
    insert_run(conn, announcements=1)
    save(conn, insert_table(conn), a_trigger())
    conn.execute("ALTER TABLE staged_change RENAME COLUMN announcements TO told")

    result = tick(conn, now=NOW)

    assert (result.runs_created, result.trigger_runs_requeued) == (1, 1)
    assert result.staged_changes_requeued == 0


def test_a_sweep_that_fails_counts_nothing_and_the_tick_succeeds(conn):
    insert_run(conn, status="running", worker_id=insert_worker(conn), leased_until=LONG_AGO)
    insert_run(conn, announcements=1)
    save(conn, insert_table(conn), a_trigger())
    conn.execute("ALTER TABLE trigger_run ADD CHECK (worker_losses = 0)")

    result = tick(conn, now=NOW)

    assert (result.runs_created, result.trigger_runs_requeued) == (1, 1)
