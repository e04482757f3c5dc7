"""The scanner as a process: what it finds, what it survives, how it ends."""

import socket
from datetime import timedelta

import pytest

from shared.db.clock import server_now
from shared.domain.work import Reference
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.amqp_consumer import AmqpConsumer
from shared.queries.notifications import listen_for_work, notify_due, notify_work
from tests.builders_db import LONG_AGO, NOW, insert_run, insert_runs, row_of
from tests.builders_delayed import insert_action
from tests.integration.scanner.conftest import SECONDS, ScannerProcess

# For what a scanner does by its plan, not by its round: that would come too late for any test.
ROUND = {"ROUND_SECONDS": "3600"}


class Seen:
    """Keeps the references that a consumer offers, and claims nothing."""

    def __init__(self):
        self.references: list[Reference] = []
        self.kinds = set()

    def claim(self, kind, references):
        self.references += references
        self.kinds.add(kind)
        return []


def test_what_comes_due_between_rounds_is_announced_to_the_workers(
    start_scanner, a_clock_table, living_worker, conn, rabbit_url, count_runs
):
    start_scanner(AMQP_URL=rabbit_url, **ROUND)
    seen = Seen()
    consumer = AmqpConsumer(
        rabbit_url, queues=topology.WORK_QUEUES, threads=4, fire_batch=20, claimer=seen
    )

    a_clock_table(in_seconds=0.5)
    notify_due(conn)

    assert consumer.receive(free=4, timeout=SECONDS) == []
    consumer.stop()
    (reference,) = seen.references
    row = row_of(conn, "trigger_run", reference.id)
    assert row["lease_token"] == str(reference.token)
    assert (row["status"], row["announcements"]) == ("pending", 1)
    assert count_runs() == 1


def test_without_a_broker_workers_are_woken_and_nothing_is_announced(
    start_scanner, a_clock_table, conn, other_conn, count_runs
):
    listen_for_work(other_conn)
    start_scanner(**ROUND)

    a_clock_table(in_seconds=0.5)
    notify_due(conn)

    heard = list(other_conn.notifies(timeout=SECONDS, stop_after=1))
    assert [notification.channel for notification in heard] == ["duebook_work"]
    assert count_runs(status="pending", announcements=0) == 1


def test_runs_that_others_write_are_announced_as_soon_as_it_is_told(
    start_scanner, living_worker, conn, rabbit_url, count_runs
):
    start_scanner(AMQP_URL=rabbit_url, **ROUND)

    insert_runs(conn, count=3, urgent=True)
    conn.execute("NOTIFY duebook_work")

    assert wait_until(lambda: count_runs(announcements=1) == 3, seconds=SECONDS)


def test_the_first_round_begins_at_once_and_walks_over_all_rows(
    start_scanner, a_date_table, count_runs
):
    a_date_table(records=30, scanned_at=NOW)
    a_date_table(records=20, scanned_at=NOW)

    start_scanner(**ROUND)

    assert wait_until(lambda: count_runs() == 50, seconds=SECONDS)


def test_rounds_follow_each_other(start_scanner, a_date_table, count_runs):
    start_scanner(ROUND_SECONDS="1")

    # Nobody tells of it, and it was not changed since it was scanned.
    a_date_table(records=5, scanned_at=NOW)

    assert wait_until(lambda: count_runs() == 5, seconds=SECONDS)


def test_a_scheduled_action_that_comes_due_is_announced(
    start_scanner, living_worker, conn, rabbit_url
):
    start_scanner(AMQP_URL=rabbit_url, **ROUND)
    seen = Seen()
    consumer = AmqpConsumer(
        rabbit_url, queues=topology.WORK_QUEUES, threads=4, fire_batch=20, claimer=seen
    )

    soon = server_now(conn) + timedelta(seconds=1)
    action_id = insert_action(conn, announce_at=soon, next_attempt_at=soon)
    notify_work(conn)

    assert consumer.receive(free=4, timeout=SECONDS) == []
    consumer.stop()
    assert seen.kinds == {"scheduled_action"}
    assert [reference.id for reference in seen.references] == [action_id]


def test_a_table_that_was_changed_is_walked_over_before_the_next_round(
    start_scanner, a_date_table, conn, count_runs
):
    start_scanner(**ROUND)

    table = a_date_table(records=5)
    conn.execute("UPDATE custom_table SET updated_at = clock_timestamp() WHERE id = %s", [table.id])
    notify_due(conn)

    assert wait_until(lambda: count_runs() == 5, seconds=SECONDS)


def test_runs_that_lost_their_worker_are_taken_back(start_scanner, conn):
    start_scanner(**ROUND)

    run_id = insert_run(conn, status="running", leased_until=LONG_AGO)

    assert wait_until(
        lambda: row_of(conn, "trigger_run", run_id)["status"] == "pending", seconds=SECONDS
    )


def test_old_runs_are_deleted(start_scanner, conn, count_runs):
    insert_runs(conn, count=2, status="done")

    start_scanner(**ROUND)

    assert wait_until(lambda: count_runs() == 0, seconds=SECONDS)


def test_two_scanners_create_and_announce_everything_once(
    start_scanner, a_date_table, a_clock_table, living_worker, rabbit_url, count_runs
):
    for _ in range(5):
        a_date_table(records=100)
        a_clock_table(in_seconds=1)

    for _ in range(2):
        start_scanner(ready=False, AMQP_URL=rabbit_url, ROUND_SECONDS="1")

    assert wait_until(lambda: count_runs(announcements=1) == 505, seconds=SECONDS)
    assert count_runs() == 505


def test_a_terminated_scanner_ends_cleanly(start_scanner, rabbit_url):
    for amqp_url in ("", rabbit_url):
        scanner = start_scanner(AMQP_URL=amqp_url)

        assert scanner.child.stop(seconds=SECONDS) == 0


def test_a_scanner_told_to_stop_while_the_database_is_silent_ends_in_time(start_scanner, proxy):
    scanner = start_scanner(
        DATABASE_URL=proxy.url, GRACE_SECONDS="16", ACTION_DEADLINE_SECONDS="1", **ROUND
    )

    proxy.be_silent()

    assert scanner.child.stop(seconds=16) == 0
    proxy.speak()


def test_a_scanner_told_to_stop_before_it_has_a_database_ends(start_scanner, unused_port):
    scanner = start_scanner(
        ready=False, DATABASE_URL=f"postgresql://nobody@127.0.0.1:{unused_port}/none"
    )
    assert wait_until(lambda: scanner.readiness() == "the database is away", seconds=SECONDS)

    assert scanner.child.stop(seconds=SECONDS) == 0


def test_a_scanner_in_the_middle_of_much_work_ends_cleanly(
    start_scanner, a_date_table, living_worker, rabbit_url, count_runs
):
    a_date_table(records=300)
    scanner = start_scanner(ready=False, AMQP_URL=rabbit_url)
    assert wait_until(lambda: count_runs() > 0, seconds=SECONDS)

    assert scanner.child.stop(seconds=SECONDS) == 0
    second = start_scanner(AMQP_URL=rabbit_url)
    assert wait_until(lambda: count_runs(announcements=1) == 300, seconds=SECONDS)
    assert second.child.stop(seconds=SECONDS) == 0


def test_lost_database_sessions_are_replaced(
    start_scanner, database_url, a_clock_table, conn, count_runs
):
    scanner = start_scanner(DATABASE_URL=database_url, **ROUND)  # sessions that conn may end

    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'duebook-scanner%'"
    )
    a_clock_table(in_seconds=0)

    assert wait_until(lambda: count_runs() == 1, seconds=SECONDS)
    assert wait_until(scanner.is_ready, seconds=SECONDS)


def test_while_the_broker_is_away_work_waits_in_the_table(
    start_scanner, a_clock_table, living_worker, conn, restartable_rabbit, count_runs
):
    node, url = restartable_rabbit
    node.stop()
    try:
        scanner = start_scanner(ready=False, AMQP_URL=url, **ROUND)
        a_clock_table(in_seconds=0)
        assert wait_until(lambda: count_runs() == 1, seconds=SECONDS)
        assert wait_until(lambda: scanner.readiness() == "the broker is away", seconds=SECONDS)
        insert_run(conn, status="running", leased_until=LONG_AGO)
        assert wait_until(lambda: count_runs(status="pending") == 2, seconds=SECONDS)
        assert count_runs(announcements=0) == 2
    finally:
        node.start()

    assert wait_until(lambda: count_runs(announcements=1) == 2, seconds=SECONDS)
    assert wait_until(scanner.is_ready, seconds=SECONDS)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"HIGH_WATER": "none"}, "HIGH_WATER: Not a valid integer."),
        ({"AMQP_URL": "amqp://h?heartbeat=hunter2"}, "AMQP_URL: Must have the parameters"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
            "OpenTelemetry refuses one of its own: max_queue_size must be a positive integer.",
        ),
        ({}, "HEALTH_HOST, HEALTH_PORT: cannot listen on 127.0.0.1"),
    ],
)
def test_wrong_settings_are_told_at_once(database_url, tmp_path, settings, told):
    log = tmp_path / "log"

    with socket.create_server(("127.0.0.1", 0)) as taken:
        taken_port = {"HEALTH_PORT": str(taken.getsockname()[1])}
        scanner = ScannerProcess({"DATABASE_URL": database_url, **taken_port, **settings}, log)
        assert wait_until(lambda: scanner.child.poll() is not None, seconds=SECONDS)

    assert scanner.child.stop() == 2
    assert told in log.read_text()
    assert "Traceback" not in log.read_text()
    assert "hunter2" not in log.read_text()
