"""Scanners as processes, and tables with something due for them."""

import os
import sys
from datetime import timedelta

import pytest
import urllib3
from psycopg.sql import SQL, Identifier, Placeholder

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.db.clock import server_now
from shared.db.connection import connect
from shared.db.roles import SCANNER
from shared.lifecycle import wait_until
from shared.queries.workers import hold_liveness
from tests.builders import SCHEDULES, a_stored_trigger
from tests.builders_db import insert_records, insert_state, insert_table, insert_worker, trigger_id

SECONDS = 60.0


class ScannerProcess:
    """A scanner that runs."""

    def __init__(self, environment, log):
        self._port = free_port()
        with log.open("wb") as output:
            self.child = Child(
                [sys.executable, "-m", "services.scanner"],
                environment={**os.environ, "HEALTH_PORT": str(self._port), **environment},
                output=output,
            )

    def readiness(self):
        """Return what /readyz answers, None while nobody listens."""
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self._port}/readyz", retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.data.decode().strip()

    def is_ready(self):
        return self.readiness() == "ok"


@pytest.fixture
def start_scanner(login_url, tmp_path):
    """Starts scanner processes; waits until each is ready, unless told not to."""
    scanners = []

    def start(*, ready=True, **environment):
        defaults = {"DATABASE_URL": login_url(SCANNER), "AMQP_URL": ""}
        log = tmp_path / f"scanner-{len(scanners)}.log"
        scanner = ScannerProcess(defaults | environment, log)
        scanners.append(scanner)
        if ready:
            assert wait_until(scanner.is_ready, seconds=SECONDS), log.read_text()
        return scanner

    yield start
    for scanner in scanners:
        scanner.child.stop()


@pytest.fixture
def living_worker(conn, database_url):
    """A worker that lives until the test ends, so that there is room for announcements."""
    with connect(database_url, application_name="worker") as session:
        worker_id = insert_worker(conn, threads=2000)
        assert hold_liveness(session, worker_id)
        yield worker_id


@pytest.fixture
def a_clock_table(conn):
    """Inserts a table whose interval trigger comes due in so many seconds."""

    def insert(*, in_seconds, every_seconds=3600):
        id = trigger_id()
        schedule = {"type": "interval", "every_seconds": every_seconds}
        table = insert_table(conn, triggers=[a_stored_trigger(id=id, schedule=schedule)])
        due_at = server_now(conn) + timedelta(seconds=in_seconds)
        insert_state(
            conn,
            table,
            kind="interval",
            schedule=schedule,
            trigger_id=id,
            anchor_at=due_at - timedelta(seconds=every_seconds),
            last_window_at=due_at - timedelta(seconds=every_seconds),
            next_due_at=due_at,
        )
        return table

    return insert


@pytest.fixture
def a_date_table(conn):
    """Inserts a table with a date trigger and so many records that are overdue."""

    def insert(*, records, **more):
        id = trigger_id()
        schedule = SCHEDULES["date_column_reached"]
        table = insert_table(conn, triggers=[a_stored_trigger(id=id, schedule=schedule)], **more)
        insert_state(conn, table, trigger_id=id, schedule=schedule)
        insert_records(conn, table, [{"c2": "2026-01-01T08:00:00"}] * records)
        return table

    return insert


@pytest.fixture
def count_runs(conn):
    """Counts the runs that have these values."""

    def count(**values):
        clauses = [SQL("{} = {}").format(Identifier(name), Placeholder(name)) for name in values]
        statement = SQL("SELECT count(*) FROM trigger_run WHERE {}").format(
            SQL(" AND ").join([SQL("true"), *clauses])
        )
        return conn.execute(statement, values).fetchone()[0]

    return count
