"""The database did what the scanner asked for, and its answer was lost, or came no more."""

import threading
from contextlib import suppress

import psycopg
import pytest

from shared.db.clock import server_now
from shared.db.connection import connect
from shared.lifecycle import wait_until
from shared.queries.due_values import DueValue, put_due_values
from shared.queries.trigger_states import list_states
from shared.usecases.due_clocks import fire_due_clocks
from shared.usecases.due_pass import due_pass
from shared.usecases.tick import tick
from tests.builders_db import LONG_AGO


@pytest.fixture
def fill_due_index(conn):
    """Enters every record of a table into the due index."""

    def fill(table):
        (state,) = list_states(conn, table.id)
        ids = conn.execute("SELECT id FROM record WHERE table_id = %s", [table.id]).fetchall()
        entries = [
            DueValue(trigger_ref=state.ref, record_id=id, version=1, fire_at=LONG_AGO)
            for (id,) in ids
        ]
        put_due_values(conn, tenant_id=table.tenant_id, entries=entries)

    return fill


def fire_clocks(conn):
    fire_due_clocks(conn, limit=10, announced=False, now=server_now(conn))


def assert_not_created_again(conn, proxy, look, count_runs, expected):
    lost = proxy.lose_answer_to(b"COMMIT")
    with connect(proxy.url, application_name="far") as far, pytest.raises(psycopg.Error):
        look(far)
    assert lost.wait(30)
    created = count_runs()
    look(conn)

    assert created == expected
    assert count_runs() == expected


@pytest.mark.parametrize("look", [due_pass, tick])
def test_runs_of_rows_are_not_created_again(
    conn, proxy, a_date_table, fill_due_index, count_runs, look
):
    fill_due_index(a_date_table(records=5))

    assert_not_created_again(conn, proxy, look, count_runs, 5)


@pytest.mark.parametrize("look", [fire_clocks, tick])
def test_the_run_of_a_window_is_not_created_again(conn, proxy, a_clock_table, count_runs, look):
    a_clock_table(in_seconds=-1)

    assert_not_created_again(conn, proxy, look, count_runs, 1)


def test_tables_of_a_scanner_that_was_cut_off_are_free_after_a_while(
    conn, proxy, a_clock_table, count_runs
):
    a_clock_table(in_seconds=-1)
    proxy.be_silent(from_answer_to=b"FOR NO KEY UPDATE")

    def tick_far():
        with suppress(psycopg.Error), connect(proxy.url, application_name="far") as far:
            tick(far)

    cut_off = threading.Thread(target=tick_far)
    cut_off.start()
    assert wait_until(lambda: locks_of(conn, "far"), seconds=30)
    tick(conn)
    assert count_runs() == 0

    assert wait_until(lambda: tick(conn).runs_created == 1, seconds=30)

    proxy.speak()
    cut_off.join()
    assert count_runs() == 1


def locks_of(conn, application_name):
    """Return the rows' locks of these sessions."""
    return conn.execute(
        "SELECT mode FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE application_name = %s AND relation = 'custom_table'::regclass",
        [application_name],
    ).fetchall()
