"""A process may die at any point: what is due happens, and what has a receipt happens once."""

import os
import signal
from contextlib import contextmanager
from itertools import count
from uuid import uuid4

import pytest
from psycopg.sql import SQL, Identifier, Placeholder

from shared.db.clock import server_now
from shared.domain.columns import read_cells
from shared.effects.record_writes import create_records
from shared.queries.workers import living_workers
from shared.sealing import Sealer
from shared.usecases.manage_tables import create_table
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tokens import create_tenant
from tests.builders_db import insert_records
from tests.e2e.failpoints import STATUS, after, before
from tests.e2e.installation import notify, scheduled

SCANNER_POINTS = [
    after("shared.usecases.due_dates:take_due"),
    before("shared.usecases.fire_dates:insert_date_runs"),
    after("shared.usecases.fire_dates:insert_date_runs"),
    after("shared.usecases.due_dates:fire_records"),
    after("shared.usecases.due_pass:fire_due_dates"),
    after("shared.usecases.fire_clocks:insert_clock_run"),
    after("shared.usecases.fire_clocks:consume_window"),
    after("shared.usecases.due_pass:fire_due_clocks"),
    after("shared.usecases.scan_table:take_page"),
    after("shared.usecases.walk:move_cursor"),
    after("shared.usecases.tick:scan_table"),
    after("shared.usecases.announce:recover_stale"),
]
PUBLISHING_POINTS = [
    after("shared.usecases.due_pass:due_pass"),
    before("shared.usecases.announce:announce_batch"),
    after("shared.usecases.announce:announce_batch"),
    before("shared.messaging.amqp_publisher:AmqpPublisher.publish"),
    after("shared.messaging.amqp_publisher:AmqpPublisher.publish"),
]
EXECUTING_POINTS = [
    before("shared.actions.notify:Notify.execute"),
    after("shared.actions.notify:Notify.execute", call=3),
    after("services.worker.performer:write_steps"),
    after("services.worker.performer:Performer._apply"),
    after("shared.queries.work:mark_intents"),
    before("shared.actions.api_call:ApiCall.execute"),
    after("shared.actions.api_call:ApiCall.execute"),
    before("services.worker.committer:Committer._write"),
    after("services.worker.committer:write_steps"),
    after("services.worker.committer:Committer._write", call=2),
    after("shared.actions.create_record:CreateRecord.execute", call=2),
    after("shared.queries.work:finish"),
]
CLAIMING_POINTS = [
    after("shared.queries.workers:register_worker"),
    before("shared.queries.claims:claim_due"),
    after("shared.queries.claims:claim_due"),
    after("shared.usecases.announce:recover_stale"),
]
ACKNOWLEDGING_POINTS = [
    before("shared.queries.claims:claim"),
    after("shared.queries.claims:claim"),
    before("shared.messaging.amqp_consumer:AmqpConsumer._acknowledge"),
    after("shared.messaging.amqp_consumer:AmqpConsumer._acknowledge", call=2),
]

_RECORDS = 12
_HURRY = """
UPDATE trigger_run
SET next_attempt_at = clock_timestamp(), announce_at = clock_timestamp()
WHERE status = 'pending' AND greatest(next_attempt_at, announce_at) > clock_timestamp()
"""
_NOT_DONE = "SELECT count(*) FROM trigger_run WHERE status <> 'done'"


class Scene:
    """A table on which records keep coming due, with every effect counted."""

    def __init__(self, installation, conn, receiver):
        self.installation = installation
        self._conn = conn
        self._receiver = receiver
        self._names = count(1)
        self._dates = self._events = 0
        now = server_now(conn)
        tenant = create_tenant(conn, name="tenant", key_secret=b"k" * 32, sealer=Sealer(), now=now)

        def make(name, columns):
            return create_table(
                conn,
                tenant_id=tenant.id,
                channel_id=None,
                name=name,
                raw_columns=[{"name": column, "type": type} for column, type in columns.items()],
                now=now,
            )

        self._told = make("told", {"title": "text"})
        self._table = make("cases", {"title": "text", "due": "datetime"})
        effects = [
            notify("$row.title", chatroom=str(uuid4())),
            {"type": "api_call", "method": "POST", "url": receiver.url},
            {
                "type": "create_record",
                "table_id": str(self._told.id),
                "data": {"title": "$row.title"},
            },
        ]
        self._triggers = [
            scheduled({"type": "date_column_reached", "column": "due"}, *effects),
            {
                "on": "record_created",
                "when": [{"column": "title", "op": "not_empty"}],
                "actions": [notify("new", chatroom=str(uuid4()))],
            },
        ]

    def make_due(self):
        """Add a clock trigger, records in the due index, and some that only a walk finds."""
        now = server_now(self._conn)
        hourly = {"type": "interval", "every_seconds": 86_400}
        self._triggers.append(scheduled(hourly, notify("clock", chatroom=str(uuid4()))))
        self._table = set_triggers(self._conn, self._table.id, self._triggers, now=now)
        self._triggers = self._table.triggers
        self._add_records(_RECORDS)
        insert_records(self._conn, self._table, [{"c2": "2020-01-01 00:00"}] * 2)
        self._dates += 2

    def let_die(self, service, *points):
        """Run processes that die at these points, at the same time, until they are dead."""
        dying = {
            point: self.installation.start(
                service, arguments=point.arguments(f"services.{service}")
            )
            for point in points
        }

        def all_dead():
            if all(child.poll() is not None for child in dying.values()):
                return True
            # What one of them waits for, another may have taken before: there is always more.
            self._add_records(1)
            return False

        self.installation.wait(all_dead, every_seconds=0.5)
        ended = {point: child.poll() for point, child in dying.items()}
        assert ended == dict.fromkeys(points, STATUS), self.installation.logs()

    def assert_each_happened_once(self):
        """Wait until all is done, and count; what waits by plan is moved to now."""

        def is_done():
            self._conn.execute(_HURRY)
            return self._count("trigger_run") == expected and not self._unfinished()

        clocks = len(self._triggers) - 2
        expected = self._dates + self._events + clocks
        self.installation.wait(is_done, every_seconds=1.0)
        assert self._count("chat_message") == expected
        assert self._count("record", table_id=self._told.id) == self._dates
        keys = {request.headers["idempotency-key"] for request in self._receiver.requests}
        assert len(keys) == self._dates
        assert self.installation.verify()["ok"]

    @property
    def doubled_calls(self):
        """How many calls were made once more, under the same key."""
        return len(self._receiver.requests) - self._dates

    def _add_records(self, count):
        rows = [
            {"title": f"case {next(self._names)}", "due": "2020-01-01 00:00"} for _ in range(count)
        ]
        cells = [read_cells(row, self._table.columns) for row in rows]
        create_records(self._conn, self._table, cells, now=server_now(self._conn))
        self._events += count
        self._dates += count

    def _unfinished(self):
        return self._conn.execute(_NOT_DONE).fetchone()[0]

    def _count(self, relation, **values):
        names = [SQL("{} = {}").format(Identifier(name), Placeholder(name)) for name in values]
        statement = SQL("SELECT count(*) FROM {} WHERE {}").format(
            Identifier(relation), SQL(" AND ").join([SQL("true"), *names])
        )
        return self._conn.execute(statement, values).fetchone()[0]


@pytest.fixture
def scene(install, amqp_url, conn, receiver):
    # Many small messages, so that each consumer gets some; rounds so often that none is waited for.
    return Scene(install(amqp_url, FIRE_BATCH="2", ROUND_SECONDS="2"), conn, receiver)


@pytest.fixture
def start_worker(scene, conn):
    """Starts a worker that lives on, and returns it when it is known to live."""

    def start():
        living = len(living_workers(conn))
        worker = scene.installation.start("worker")
        scene.installation.wait(lambda: len(living_workers(conn)) > living)
        return worker

    return start


@contextmanager
def frozen(process):
    """Keep a process from doing anything during the block."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_wherever_a_scanner_dies_everything_fires_once(scene, amqp_url, start_worker):
    start_worker()

    for point in [*SCANNER_POINTS, *(PUBLISHING_POINTS if amqp_url else ())]:
        scene.make_due()
        scene.let_die("scanner", point)
    scene.installation.start("scanner")

    scene.assert_each_happened_once()
    assert scene.doubled_calls == 0


def test_wherever_a_worker_dies_everything_is_done_once(scene, amqp_url, start_worker):
    worker = start_worker()
    scene.installation.start("scanner")
    own = ACKNOWLEDGING_POINTS if amqp_url else CLAIMING_POINTS
    groups = [EXECUTING_POINTS[:4], EXECUTING_POINTS[4:8], EXECUTING_POINTS[8:], own]

    for points in groups:
        with frozen(worker):
            scene.make_due()
            scene.make_due()
            scene.make_due()
            scene.let_die("worker", *points)
        scene.assert_each_happened_once()

    # Who dies between a call and its receipt makes it again: at most once for each of its threads.
    threads = int(scene.installation.environment["WORKER_THREADS"])
    assert 1 <= scene.doubled_calls <= len(EXECUTING_POINTS) * threads
