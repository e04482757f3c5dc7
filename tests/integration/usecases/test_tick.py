"""The tick as a whole: which tables, in which transactions, what it answers (spec 1 §7)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest

from shared.db.clock import server_now
from shared.db.connection import connect
from shared.queries.due_tables import claim_table
from shared.usecases.manage_tables import trash_table
from shared.usecases.scan_table import Turn
from shared.usecases.tick import tick
from tests.builders import a_trigger
from tests.builders_db import LONG_AGO, NOW, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    DATE,
    INTERVAL,
    MINUTE,
    OTHER_ID,
    OVERDUE,
    a_known,
    created,
    fired,
    hear,
    runs,
    save,
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


def test_the_answer_counts_tables_schedules_and_runs(conn):
    dated, clocked, on_event, emptied, _untouched = (insert_table(conn) for _ in range(5))
    save(conn, dated, a_trigger(schedule=DATE))
    write(conn, dated, OVERDUE, OVERDUE, AHEAD)
    save(conn, clocked, a_trigger(), a_trigger(enabled=False))
    save(conn, on_event, a_trigger(on="record_created"))
    save(conn, emptied)

    result = tick(conn, now=NOW)

    assert (result.tables_scanned, result.tables_with_schedules, result.runs_created) == (4, 2, 3)
    assert (result.trigger_runs_requeued, result.staged_changes_requeued) == (0, 0)


def test_runs_are_born_pending_at_the_one_now_of_the_tick(conn):
    table = insert_table(conn)
    save(conn, table, a_trigger(schedule=DATE), *(a_trigger(schedule=one) for one in CLOCKS[:2]))
    write(conn, table, OVERDUE)
    now = NOW + timedelta(microseconds=123_456)

    tick(conn, now=now)

    born = runs(conn)
    assert {(run["status"], run["created_at"], run["announce_at"]) for run in born} == {
        ("pending", now, now)
    }
    assert {run["announcements"] for run in born} == {0}


def test_without_a_now_the_servers_clock_counts(conn):
    save(conn, insert_table(conn), a_trigger(), now=server_now(conn))
    before = server_now(conn)

    assert tick(conn).runs_created == 1

    assert before < runs(conn)[0]["created_at"] < server_now(conn)


def test_runs_that_the_caller_publishes_are_born_announced(conn, other_conn):
    heard = hear(other_conn, "duebook_work")
    now = server_now(conn)
    table = insert_table(conn)
    save(conn, table, a_trigger(), a_trigger(schedule=DATE), now=now)
    write(conn, table, OVERDUE)

    result = tick(conn, now=now, announced=True)

    born = runs(conn)
    assert {(run["announcements"], run["announce_at"]) for run in born} == {(1, now + MINUTE)}
    assert sorted((one.id, one.token) for one in result.references) == [
        (run["id"], run["lease_token"]) for run in born
    ]
    assert heard() == 0


def test_whoever_announces_is_told_of_runs_that_the_caller_does_not_publish(conn, other_conn):
    heard = hear(other_conn, "duebook_work")
    save(conn, insert_table(conn), a_trigger())

    tick(conn, now=NOW)
    assert heard() == 1
    tick(conn, now=NOW)
    assert heard() == 0


def test_the_tables_scanned_longest_ago_come_first_and_each_gets_its_turn(conn):
    tables = _tables(conn, 5)

    for turn in range(3):
        assert tick(conn, table_limit=2, now=NOW + turn * MINUTE).tables_scanned == 2

    assert len(runs(conn)) == 5
    assert sorted(_scanned_at(conn, table) for table in tables) == [
        NOW,
        NOW + MINUTE,
        NOW + MINUTE,
        NOW + 2 * MINUTE,
        NOW + 2 * MINUTE,
    ]


def test_a_trashed_table_is_passed_by(conn):
    [table] = _tables(conn, 1)
    trash_table(conn, table.id, now=NOW)

    assert tick(conn, now=NOW).tables_scanned == 0


def test_a_table_that_another_tick_has_is_passed_by(conn, other_conn):
    held, free = _tables(conn, 2)

    with other_conn.transaction():
        assert claim_table(other_conn, held.id)
        result = tick(conn, now=NOW)

    assert result.tables_scanned == 1
    assert [run["table_id"] for run in runs(conn)] == [free.id]
    assert created(conn) == 1


def test_a_table_that_another_tick_has_scanned_since_is_passed_by(conn):
    [table] = _tables(conn, 1)
    before = _scanned_at(conn, table)
    created(conn)

    assert tick(conn, tables=[Turn(table.id, before)], now=NOW + MINUTE).tables_scanned == 0
    assert tick(conn, tables=[Turn(table.id, NOW)], now=NOW + MINUTE).tables_scanned == 1


def test_a_table_that_another_tick_has_takes_nobodys_place(conn, other_conn):
    held, _free = _tables(conn, 2)

    with other_conn.transaction():
        assert claim_table(other_conn, held.id)
        result = tick(conn, table_limit=1, now=NOW)

    assert (result.tables_scanned, result.runs_created) == (1, 1)


def test_a_table_in_the_midst_of_a_write_is_scanned_all_the_same(conn, other_conn):
    [table] = _tables(conn, 1)

    with other_conn.transaction():
        write(other_conn, table, OVERDUE)

        assert created(conn) == 1


def test_a_record_is_written_while_a_tick_has_the_table(conn, other_conn):
    [table] = _tables(conn, 1)

    with conn.transaction():
        assert claim_table(conn, table.id)

        assert len(write(other_conn, table, OVERDUE)) == 1


def test_what_is_listed_and_gone_meanwhile_is_passed_by(conn):
    assert tick(conn, tables=[Turn(uuid4(), LONG_AGO)], now=NOW).tables_scanned == 0


def test_a_disabled_trigger_is_passed_by_and_left_alone(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE, enabled=False), a_trigger(enabled=False))
    write(conn, table, OVERDUE)
    before = conn.execute("SELECT to_jsonb(s) FROM trigger_state AS s ORDER BY id").fetchall()

    assert created(conn) == 0

    assert (
        before == conn.execute("SELECT to_jsonb(s) FROM trigger_state AS s ORDER BY id").fetchall()
    )


def test_overlapping_ticks_consume_each_identity_once(conn, database_url):
    table = insert_table(conn)
    save(conn, table, a_trigger(), a_trigger(schedule=DATE))
    write(conn, table, *[OVERDUE] * 20)

    def race(_):
        with connect(database_url, application_name="racer") as racer:
            return tick(racer, now=NOW).runs_created

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(race, range(8)))

    assert sum(counts) == 21
    assert len(set(fired(conn))) == len(fired(conn)) == 21


def test_after_a_second_the_tick_commits_and_claims_the_table_again(conn, other_conn):
    heard = hear(other_conn, "duebook_work")
    table = insert_table(conn)
    save(conn, table, a_trigger(), a_trigger(), a_trigger())

    assert created(conn, lock_seconds=0) == 3

    assert heard() == 3  # one for each transaction


def test_a_table_taken_away_between_two_transactions_keeps_what_is_committed(conn):
    table = insert_table(conn)
    save(conn, table, a_known(), a_known(id=OTHER_ID))
    conn.execute(
        """
        CREATE FUNCTION trash() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE custom_table SET trashed_at = scanned_at;
            RETURN NULL;
        END $$
        """
    )
    conn.execute(
        "CREATE TRIGGER trash AFTER INSERT ON trigger_run FOR EACH ROW EXECUTE FUNCTION trash()"
    )

    result = tick(conn, lock_seconds=0, now=NOW)

    assert (result.tables_scanned, result.runs_created) == (1, 1)
    assert len(result.references) == len(runs(conn)) == 1


@pytest.mark.parametrize("schedule", [INTERVAL, DATE])
def test_a_run_names_the_definition_that_was_frozen_with_it(conn, schedule):
    table = insert_table(conn)
    [stored] = save(conn, table, a_known(schedule=schedule)).triggers
    write(conn, table, OVERDUE)

    created(conn)

    [(body, snapshot)] = conn.execute(
        "SELECT body, snapshot FROM trigger_run JOIN definition ON hash = definition_hash"
    )
    assert body == {
        "v": 1,
        "trigger": stored,
        "columns": [column.to_json() for column in table.columns],
    }
    assert snapshot == ({"c2": OVERDUE} if schedule is DATE else None)
