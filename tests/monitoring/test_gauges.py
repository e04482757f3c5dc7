"""The gauges behind the alarms, from rows and sessions as they are."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pika
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from services.api.readiness import readiness_check
from services.scanner.steps import Scanner
from services.scanner.transactions import TransactionWatch
from services.worker.holdings import Held, Holdings
from services.worker.measures import measure_when_asked
from services.worker.server_time import ServerTime
from shared.db.clock import server_now
from shared.db.connection import connect, open_pool
from shared.db.roles import SCANNER
from shared.lifecycle import wait_until
from shared.messaging import topology
from shared.messaging.amqp_publisher import AmqpPublisher
from shared.observability import metrics
from shared.usecases.announce import Announcer
from shared.usecases.due_pass import due_pass
from shared.usecases.tick import tick
from tests.builders import SCHEDULES, a_claimed_run, a_stored_trigger
from tests.builders_db import insert_records, insert_run, insert_state, insert_table, trigger_id
from tests.builders_work import insert_work


@pytest.fixture
def scanner():
    return Scanner(None, round_seconds=60, run_retention_days=30)


@pytest.fixture
def scanner_conn(login_url):
    """A session with the rights of a scanner, and no others."""
    with connect(login_url(SCANNER), application_name="scanner", role=SCANNER) as session:
        yield session


def _value(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("ends", "failing"),
    [
        (["failed"] * 5, 1),
        (["done", *["failed"] * 5, "pending"], 1),
        (["failed"] * 4, 0),
        ([*["failed"] * 5, "done"], 0),
    ],
)
def test_triggers_whose_last_five_runs_failed_are_counted(
    conn, scanner_conn, scanner, ends, failing
):
    table, now = insert_table(conn), server_now(conn)
    other = trigger_id()
    for status in ends:
        finished = {"finished_at": now} if status in ("done", "failed") else {}
        insert_run(conn, table, status=status, **finished)
        insert_run(conn, table, status="done", trigger_id=other)

    scanner.watch(scanner_conn)

    assert _value("duebook_failing_triggers") == failing


def test_a_streak_of_long_ago_alarms_nobody(conn, scanner_conn, scanner):
    table, before = insert_table(conn), server_now(conn) - timedelta(days=3)
    for _ in range(5):
        insert_run(conn, table, status="failed", finished_at=before)

    scanner.watch(scanner_conn)

    assert _value("duebook_failing_triggers") == 0


@pytest.mark.parametrize(
    ("last_hours_ago", "look_in_seconds", "more", "silent"),
    [
        (2.5, -60, {}, 1),
        (2.5, 5, {}, 1),
        (1.5, -60, {}, 0),
        (2.5, None, {}, 0),
        (2.5, -60, {"retired": True}, 0),
        (2.5, -60, {"trashed": True}, 0),
    ],
)
def test_schedules_that_let_two_windows_pass_are_counted(
    conn, scanner_conn, scanner, last_hours_ago, look_in_seconds, more, silent
):
    now = server_now(conn)
    table = insert_table(conn, trashed_at=now if more.get("trashed") else None)
    last = now - timedelta(hours=last_hours_ago)
    look = None if look_in_seconds is None else now + timedelta(seconds=look_in_seconds)
    insert_state(
        conn,
        table,
        kind="interval",
        anchor_at=last - timedelta(hours=10),
        last_window_at=last,
        next_due_at=look,
        retired_at=now if more.get("retired") else None,
    )

    scanner.watch(scanner_conn)

    assert _value("duebook_silent_schedules") == silent


def test_dead_letters_are_seen_while_there_is_nothing_to_announce(conn, rabbit_url):
    publisher = AmqpPublisher(rabbit_url, fire_batch=10)
    try:
        assert wait_until(publisher.ready, seconds=60)
        dead = topology.dead_letters_of(topology.EXECUTE)
        with pika.BlockingConnection(pika.URLParameters(rabbit_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", dead, b"a letter")
        announcer = Announcer(publisher, batch_size=10, fire_batch=10, high_water=10)
        scanner = Scanner(announcer, round_seconds=60, run_retention_days=30)

        def seen():
            scanner.measure(conn)
            return _value("duebook_queue_depth", queue=dead) == 1

        assert wait_until(seen, seconds=60)
    finally:
        publisher.close()


def test_an_open_transaction_grows_older_with_each_look(conn, scanner_conn, other_conn, scanner):
    scanner.measure(scanner_conn)
    assert _value("duebook_oldest_transaction_seconds") == 0

    with other_conn.transaction():
        other_conn.execute("SELECT 1")  # it has written nothing, and counts all the same
        scanner.measure(scanner_conn)
        scanner.measure(scanner_conn)
        assert _value("duebook_oldest_transaction_seconds") > 0

    scanner.measure(scanner_conn)
    assert _value("duebook_oldest_transaction_seconds") == 0


def test_the_log_names_each_transaction_once(scanner_conn, other_conn):
    watch = TransactionWatch(long_seconds=0)
    with other_conn.transaction(), capture_logs() as logs:
        other_conn.execute("SELECT 1")
        watch.look(scanner_conn)
        watch.look(scanner_conn)

    assert [(log["event"], log["pid"]) for log in logs] == [
        ("transaction_open_long", other_conn.info.backend_pid)
    ]


def test_the_log_names_each_trigger_once(conn, scanner_conn, scanner):
    table, now = insert_table(conn), server_now(conn)
    for _ in range(5):
        insert_run(conn, table, status="failed", trigger_id=trigger_id(7), finished_at=now)
    times = {"last_window_at": now - timedelta(hours=3), "next_due_at": now}
    insert_state(conn, table, kind="interval", trigger_id=trigger_id(8), **times)

    with capture_logs() as logs:
        scanner.watch(scanner_conn)
        scanner.watch(scanner_conn)

    assert [(log["event"], log["table_id"], log["trigger_id"]) for log in logs] == [
        ("trigger_keeps_failing", str(table.id), trigger_id(7)),
        ("schedule_silent", str(table.id), trigger_id(8)),
    ]


@pytest.mark.parametrize("service", ["scanner", "worker", "API"])
def test_the_clock_of_this_host_is_compared_with_the_databases(
    conn, database_url, scanner, service
):
    metrics.CLOCK_AHEAD_SECONDS.set(3600)
    reads = {
        "scanner": lambda: scanner.measure(conn),
        "worker": lambda: ServerTime(conn),
        "API": readiness_check(lambda: connect(database_url, application_name="api")),
    }

    reads[service]()  # the server of the tests runs on this host

    assert abs(_value("duebook_clock_ahead_seconds")) < 60


def test_a_process_tells_its_pool_as_it_is_when_asked(database_url):
    with open_pool(database_url, application_name="worker", size=2) as pool:
        pool.wait()
        measure_when_asked(pool, Holdings())

        with pool.connection():
            assert _value("duebook_pool_sessions", state="in_use") == 1
        # The pool takes a session back on a thread of its own.
        assert wait_until(lambda: _value("duebook_pool_sessions", state="free") == 1, seconds=30)
        assert _value("duebook_pool_sessions", state="in_use") == 0

        with ThreadPoolExecutor(1) as other, pool.connection(), pool.connection():
            wanted = other.submit(pool.getconn, timeout=60)
            assert wait_until(
                lambda: _value("duebook_pool_sessions", state="waiting") == 1, seconds=30
            )
        pool.putconn(wanted.result())


def test_of_its_claims_a_worker_tells_the_oldest_that_did_not_begin(database_url):
    holdings = Holdings()
    begun = Held(a_claimed_run(id=1), until=0.0)
    begun.begun = True
    holdings.add(begun)
    with open_pool(database_url, application_name="worker", size=1) as pool:
        measure_when_asked(pool, holdings)

    assert _value("duebook_oldest_unstarted_claim_seconds") == 0
    holdings.add(Held(a_claimed_run(id=2), until=0.0))
    assert _value("duebook_oldest_unstarted_claim_seconds") > 0


@pytest.mark.parametrize("kind", ["trigger_run", "scheduled_action"])
def test_the_scanner_tells_for_how_long_held_work_was_silent(conn, scanner_conn, scanner, kind):
    scanner.measure(scanner_conn)
    assert _value("duebook_oldest_silent_claim_seconds") == 0

    now = server_now(conn)
    insert_work(conn, kind, updated_at=now - timedelta(hours=3))  # nobody holds it
    insert_work(conn, kind, status="held", updated_at=now - timedelta(minutes=30))
    for other in ("trigger_run", "scheduled_action"):
        insert_work(conn, other, status="held", updated_at=now)
    scanner.measure(scanner_conn)

    assert 1800 <= _value("duebook_oldest_silent_claim_seconds") < 3600


def test_what_did_not_fire_is_counted_by_its_reason(conn):
    id, schedule = trigger_id(), SCHEDULES["date_column_reached"]
    table = insert_table(conn, triggers=[a_stored_trigger(id=id, schedule=schedule)])
    insert_state(conn, table, trigger_id=id, schedule=schedule)
    cells = ["2026-01-01T08:00:00", "not a date", None, "2999-01-01T08:00:00"]
    insert_records(conn, table, [{"c2": cell} for cell in cells])
    reasons = ("invalid_schedule_value", "missing_schedule_value", "scheduled_for_future")
    before = [_value("duebook_not_fired_total", reason=reason) for reason in reasons]

    tick(conn)

    after = [_value("duebook_not_fired_total", reason=reason) for reason in reasons]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 1, 1]


def test_a_window_that_waits_for_an_active_run_is_counted(conn):
    id, schedule = trigger_id(), {"type": "interval", "every_seconds": 3600}
    table = insert_table(conn, triggers=[a_stored_trigger(id=id, schedule=schedule)])
    due_at = server_now(conn) - timedelta(seconds=10)
    last = due_at - timedelta(hours=1)
    times = {"anchor_at": last, "last_window_at": last, "next_due_at": due_at}
    state = insert_state(conn, table, kind="interval", schedule=schedule, trigger_id=id, **times)
    insert_run(conn, table, trigger_id=id, trigger_ref=state.ref, kind="interval")
    before = _value("duebook_not_fired_total", reason="active_run")

    due_pass(conn)

    assert _value("duebook_not_fired_total", reason="active_run") == before + 1
