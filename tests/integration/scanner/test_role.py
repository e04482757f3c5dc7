"""What a scanner does, by a login that has its role alone."""

import structlog

from services.scanner.steps import Scanner
from shared.db.connection import connect
from shared.db.roles import SCANNER, WORKER
from shared.lifecycle import wait_until
from tests.builders_db import LONG_AGO, insert_run, insert_worker, statuses_of
from tests.builders_delayed import insert_action, insert_execution, insert_wait
from tests.builders_staged import insert_change
from tests.integration.scanner.conftest import SECONDS, ScannerProcess

_OLD = (
    "INSERT INTO event (tenant_id, name, created_at) VALUES (%(tenant)s, 'e', '2020-01-01Z')",
    "INSERT INTO idempotent_answer (tenant_id, key, request_hash, created_at)"
    " VALUES (%(tenant)s, 'k', decode(repeat('00', 32), 'hex'), '2020-01-01Z')",
)
_LEFT = """
SELECT
    (SELECT count(*) FROM event),
    (SELECT count(*) FROM idempotent_answer),
    (SELECT count(*) FROM workflow_execution),
    (SELECT count(*) FROM staged_change),
    (SELECT count(*) FROM worker)
"""


def _fill(conn, a_clock_table, a_date_table):
    """Give every step something to do; return the tenant of what is old."""
    a_clock_table(in_seconds=-60)
    table = a_date_table(records=3)
    insert_worker(conn)
    insert_run(conn, status="running", leased_until=LONG_AGO)
    insert_wait(conn, clicked_at=LONG_AGO)
    insert_run(conn, table, status="done")
    insert_change(conn, table, status="rejected", run_id=999_999)
    insert_action(conn, table.tenant_id, status="done")
    insert_execution(conn, table.tenant_id)
    for statement in _OLD:
        conn.execute(statement, {"tenant": table.tenant_id})


def test_no_step_lacks_a_right(conn, login_url, a_clock_table, a_date_table):
    _fill(conn, a_clock_table, a_date_table)
    scanner = Scanner(None, round_seconds=60, run_retention_days=30)

    with (
        connect(login_url(SCANNER), application_name="scanner", role=SCANNER) as session,
        structlog.testing.capture_logs() as log,
    ):
        for _ in range(3):
            for part in scanner.parts():
                part.step(session)

    assert [entry for entry in log if entry["log_level"] in ("error", "critical")] == []
    # Taken back, found by the tick or the due pass; what was done is old, and gone.
    assert statuses_of(conn, "trigger_run") == ["pending"] * 5
    assert conn.execute(_LEFT).fetchone() == (0, 0, 0, 0, 0)


def test_the_login_of_another_service_is_refused_at_the_start(login_url, tmp_path):
    log = tmp_path / "log"

    scanner = ScannerProcess({"DATABASE_URL": login_url(WORKER), "AMQP_URL": ""}, log)

    assert wait_until(lambda: scanner.child.poll() is not None, seconds=SECONDS)
    assert scanner.child.stop() == 2
    assert "it is of duebook_worker, use a login of duebook_scanner" in log.read_text()
