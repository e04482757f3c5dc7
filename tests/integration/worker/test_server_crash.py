"""A server that crashes drops every session: workers live on, and their work is not taken."""

import os
import signal

import psycopg
import pytest

from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database
from shared.lifecycle import wait_until
from shared.queries.work import recover_stale
from tests.builders_db import insert_run, row_of
from tests.integration.worker.processes import a_held_receiver
from tests.integration.worker.runs import api_call, notify
from tests.servers.postgres import ROLE, running_postgres

SECONDS = 60
_AGES = """
SELECT
    extract(epoch FROM clock_timestamp() - stats_reset)::float,
    extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float
FROM pg_stat_bgwriter
"""


@pytest.fixture
def database_url():
    """A database of a server of its own, which may crash."""
    with running_postgres() as server:
        with connect(server.url("postgres"), application_name="tests") as admin:
            ensure_database(admin, database="crashing", owner=ROLE)
            # What is committed must be there after the crash, unlike in other tests.
            admin.execute("ALTER DATABASE crashing SET synchronous_commit = on")
        url = server.url("crashing", role=ROLE)
        migrate(url)
        yield url


@pytest.fixture
def crash(database_url, conn):
    """Kills one backend, upon which the server ends all; returns a session when it is back."""
    sessions = []

    def is_back():
        try:
            sessions.append(connect(database_url, application_name="after"))
        except psycopg.OperationalError:
            return False
        return True

    def crash():
        os.kill(conn.info.backend_pid, signal.SIGKILL)
        assert wait_until(lambda: not is_back(), seconds=SECONDS, every_seconds=0)
        assert wait_until(is_back, seconds=SECONDS)
        return sessions[-1]

    yield crash
    for session in sessions:
        session.close()


def test_after_a_crash_of_the_server_only_the_lease_counts_for_a_while(conn, crash):
    run_id = insert_run(conn, status="running", worker_id=5)

    after = crash()

    since_crash, since_start = after.execute(_AGES).fetchone()
    assert since_crash < since_start
    between = (since_crash + since_start) / 2
    assert recover_stale(after, kind="trigger_run", restart_grace_seconds=between) == []
    recovered = recover_stale(after, kind="trigger_run", restart_grace_seconds=0)
    assert [run.id for run in recovered] == [run_id]


def test_a_worker_outlives_a_crash_of_the_server_and_repeats_nothing(bench, crash, start_worker):
    with a_held_receiver() as receiver:
        run_id = bench.insert(api_call(receiver.url), notify("after"))
        worker = start_worker(
            ALLOWED_PORTS=str(receiver.port), ACTION_DEADLINE_SECONDS="30", GRACE_SECONDS="45"
        )
        assert wait_until(lambda: receiver.requests, seconds=SECONDS), worker.log()

        after = crash()
        receiver.let_go.set()

        def run():
            return row_of(after, "trigger_run", run_id)

        assert wait_until(lambda: run()["status"] == "done", seconds=SECONDS), worker.log()

    assert (run()["attempts"], run()["worker_losses"]) == (1, 0)
    assert len(receiver.requests) == 1
