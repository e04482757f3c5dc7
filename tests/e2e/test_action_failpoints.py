"""Whoever dies at any point of a delayed action: each step happens, and each happens once."""

import os
import signal
from contextlib import contextmanager
from uuid import uuid4

import pytest
import urllib3

from services.cli.embedded_postgres import free_port
from shared.db.clock import server_now
from shared.queries.tracking import record_click
from shared.queries.workers import living_workers
from tests.e2e.failpoints import STATUS, after, before
from tests.e2e.installation import Workspace, notify

TAKING_POINTS = [
    before("shared.effects.delays:insert_actions"),
    after("shared.effects.delays:insert_actions"),
    before("shared.usecases.take_event:settle"),
]
CLICKING_POINTS = [
    after("shared.tracking.click_store:record_click"),
    before("shared.usecases.unlock_wait:check_and_complete_delay_wait"),
    after("shared.queries.tracking:unlock"),
    after("shared.queries.tracking:mark_tried"),
]
SWEEPING_POINTS = [
    after("shared.queries.tracking:list_untried"),
    before("shared.usecases.unlock_wait:check_and_complete_delay_wait"),
    after("shared.queries.tracking:unlock"),
    after("shared.queries.tracking:mark_tried"),
]
PUBLISHING_POINTS = [
    after("shared.usecases.announce:announce_batch"),
    after("shared.messaging.amqp_publisher:AmqpPublisher.publish"),
]
WORKING_POINTS = [
    before("shared.queries.scheduled_actions:decide_branches"),
    after("shared.queries.scheduled_actions:decide_branches"),
    after("shared.queries.claimed_actions:load_claimed"),
    before("shared.actions.start_workflow:StartWorkflow.execute"),
    after("shared.actions.start_workflow:start_execution"),
    after("shared.actions.notify:Notify.execute"),
    before("shared.actions.api_call:ApiCall.execute"),
    after("shared.actions.api_call:ApiCall.execute"),
    after("shared.queries.work:finish"),
    before("shared.effects.delays:insert_actions"),
    after("shared.effects.delays:insert_actions"),
    after("services.worker.performer:Performer._apply"),
    after("services.worker.committer:Committer._write", call=2),
    before("services.worker.following:after_schedule"),
    after("services.worker.following:after_schedule"),
]
CLAIMING_POINTS = [
    before("shared.queries.claims:claim_due_actions"),
    after("shared.queries.claims:claim_due_actions"),
    after("shared.usecases.announce:recover_stale"),
]
ACKNOWLEDGING_POINTS = [
    before("shared.queries.claims:claim_actions"),
    after("shared.queries.claims:claim_actions"),
    after("shared.messaging.amqp_consumer:AmqpConsumer._acknowledge"),
]

_AT_ONCE = 4
_EVENTS = 6
_HOUR = 3600

# What waits by plan, and the deadline of those who do not click, is now. A click is told by its
# number: the even ones click.
_PASS = """
UPDATE scheduled_action AS action
SET execute_at = least(execute_at, clock.at),
    expires_at = CASE WHEN expires_at > clock.at THEN clock.at ELSE expires_at END,
    next_attempt_at = clock.at,
    announce_at = clock.at
FROM (SELECT clock_timestamp() AS at) AS clock
WHERE action.id = ANY(ARRAY(
    SELECT waiting.id
    FROM scheduled_action AS waiting
    LEFT JOIN workflow_execution AS execution ON execution.id = waiting.execution_id
    WHERE waiting.status = 'pending'
        AND greatest(waiting.next_attempt_at, waiting.announce_at) > clock_timestamp()
        AND (waiting.mode = 'normal' OR (execution.context ->> 'n')::int % 2 = 1)
    FOR UPDATE OF waiting SKIP LOCKED
))
"""
_LINKS = """
SELECT (execution.context ->> 'n')::int, link.id, link.token
FROM tracking_link AS link
JOIN workflow_execution AS execution ON execution.id = link.execution_id
WHERE NOT EXISTS (SELECT FROM tracking_click AS click WHERE click.link_id = link.id)
"""
_UNFINISHED = "SELECT count(*) FROM scheduled_action WHERE status <> 'done'"
_STEPS = "SELECT count(*) FROM scheduled_action WHERE workflow_node_path = '4' AND status = 'done'"
_MESSAGES = "SELECT message FROM chat_message"
_RECORDS = "SELECT data ->> 'c1' FROM record"


class Scene:
    """Events that start a workflow, each with its number; all of their effects are counted."""

    def __init__(self, installation, conn, receiver):
        self.installation = installation
        self._conn = conn
        self._receiver = receiver
        self._workspace = Workspace(installation)
        self._events = 0
        self._author()

    def _author(self):
        table = self._workspace.make_table("told", title="text")
        room = str(uuid4())
        record = {"type": "create_record", "table_id": table, "data": {"title": "clicked $event.n"}}
        nodes = [
            _step(notify("begun $event.n", chatroom=room)),
            _step({"type": "api_call", "method": "POST", "url": self._receiver.url}),
            {
                "type": "wait_for_tracking",
                "seconds": _HOUR,
                "link": "offer",
                "target_url": "https://shop.example/offer",
                "clicked": [_step(record)],
                "not_clicked": [_step(notify("late $event.n", chatroom=room))],
            },
            {"type": "delay", "seconds": _HOUR},
            _step(notify("ended $event.n", chatroom=room)),
        ]
        self._workspace.call("POST", "/v1/workflows", {"name": "flow", "nodes": nodes})
        start = {"type": "start_workflow", "workflow": "flow"}
        rule = {"name": "rule", "event": "bought", "conditions": [], "actions": [start]}
        self._workspace.call("POST", "/v1/trigger-rules", rule)

    def happen(self, count=_EVENTS):
        """Send events to the API that lives."""
        for _ in range(count):
            self._send_event()

    def happen_at(self, point):
        """Send an event to an API that dies over it, and then, without an answer, once more."""
        with self._dying_api(point):
            self._send_event()

    def click_at(self, point):
        """Click a link at an API that dies over it; whoever clicked does not click again."""
        self.happen(2)
        self.await_links()
        _, _, token = self._unclicked()[0]
        with self._dying_api(point):
            self._visit(token)

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
            self.happen(1)
            self.go_on()
            return False

        self.installation.wait(all_dead, every_seconds=0.2)
        ended = {point: child.poll() for point, child in dying.items()}
        assert ended == dict.fromkeys(points, STATUS), self.installation.logs()

    def await_links(self):
        """Wait until somebody has a link to click."""
        self.installation.wait(self._unclicked)

    def leave_clicks(self):
        """Write the clicks of all who click, as if nobody had come to unlock their waits."""
        now = server_now(self._conn)
        for _, link_id, _ in self._unclicked():
            record_click(self._conn, link_id, clicked_at=now)

    def go_on(self):
        """Let the time come for what waits for it."""
        self._conn.execute(_PASS)

    def assert_each_step_happened_once(self):
        """Let everybody click who does, wait until all is done, and count."""

        def is_done():
            self.go_on()
            for _, _, token in self._unclicked():
                self._visit(token)
            return self._count(_STEPS) == self._events and self._count(_UNFINISHED) == 0

        self.installation.wait(is_done, every_seconds=0.5)
        numbers = range(self._events)
        expected = [f"{word} {n}" for n in numbers for word in ("begun", "ended")]
        expected += [f"late {n}" for n in numbers if n % 2 == 1]
        assert sorted(self._column(_MESSAGES)) == sorted(expected)
        clicked = [f"clicked {n}" for n in numbers if n % 2 == 0]
        assert sorted(self._column(_RECORDS)) == sorted(clicked)
        keys = {request.headers["idempotency-key"] for request in self._receiver.requests}
        assert len(keys) == self._events
        assert self.installation.verify()["ok"]

    @property
    def doubled_calls(self):
        """How many calls were made once more, under the same key."""
        return len(self._receiver.requests) - self._events

    def _send_event(self):
        event = {"name": "bought", "data": {"n": self._events}, "idempotency_key": str(uuid4())}
        self._events += 1
        try:
            self._workspace.call("POST", "/v1/events", event)
        except urllib3.exceptions.HTTPError:
            self.installation.api_url = self._living
            self._workspace.call("POST", "/v1/events", event)

    def _visit(self, token):
        address = f"{self.installation.api_url}/t/{token}"
        answer = urllib3.request("GET", address, redirect=False, retries=False, timeout=30)
        assert answer.status == 302

    @contextmanager
    def _dying_api(self, point):
        """Have an API that dies be the one that is called; see to it that it has died."""
        self._living, port = self.installation.api_url, free_port()
        self.installation.api_url = f"http://127.0.0.1:{port}"
        dying = self.installation.start(
            "api", arguments=point.arguments("tests.e2e.one_api"), API_PORT=str(port)
        )
        self.installation.wait(self.installation.answers)
        try:
            yield
        except urllib3.exceptions.HTTPError:
            pass
        finally:
            self.installation.api_url = self._living
        assert self.installation.status_of(dying) == STATUS, point

    def _unclicked(self):
        return [one for one in self._conn.execute(_LINKS).fetchall() if one[0] % 2 == 0]

    def _count(self, statement):
        return self._conn.execute(statement).fetchone()[0]

    def _column(self, statement):
        return [value for (value,) in self._conn.execute(statement)]


def _step(action):
    return {"type": "action", "action": action}


@pytest.fixture
def scene(install, amqp_url, conn, receiver):
    """A scene with an API, and workers and scanners still to be started."""
    installation = install(amqp_url, FIRE_BATCH="2", ROUND_SECONDS="2")
    installation.start("api")
    installation.wait(installation.answers)
    return Scene(installation, conn, receiver)


@pytest.fixture
def worker(scene, conn):
    """A worker that lives on."""
    worker = scene.installation.start("worker")
    scene.installation.wait(lambda: living_workers(conn))
    return worker


@contextmanager
def frozen(process):
    """Keep a process from doing anything during the block."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_wherever_a_worker_dies_each_step_happens_once(scene, amqp_url, worker):
    scene.installation.start("scanner")
    points = [*WORKING_POINTS, *(ACKNOWLEDGING_POINTS if amqp_url else CLAIMING_POINTS)]

    for first in range(0, len(points), _AT_ONCE):
        with frozen(worker):
            scene.happen(2 * _EVENTS)
            scene.let_die("worker", *points[first : first + _AT_ONCE])
        scene.assert_each_step_happened_once()

    # Who dies between a call and its receipt makes it again: at most once for each of its threads.
    threads = int(scene.installation.environment["WORKER_THREADS"])
    assert 1 <= scene.doubled_calls <= len(points) * threads


@pytest.mark.usefixtures("worker")
def test_wherever_an_api_dies_each_step_happens_once(scene):
    scene.installation.start("scanner")

    for point in TAKING_POINTS:
        scene.happen_at(point)
    for point in CLICKING_POINTS:
        scene.click_at(point)

    scene.assert_each_step_happened_once()
    assert scene.doubled_calls == 0


@pytest.mark.usefixtures("worker")
def test_wherever_a_scanner_dies_each_step_happens_once(scene, amqp_url):
    scanner = scene.installation.start("scanner")

    for point in SWEEPING_POINTS:
        scene.happen(2)
        scene.await_links()
        with frozen(scanner):
            scene.leave_clicks()
            scene.let_die("scanner", point)
    for point in PUBLISHING_POINTS if amqp_url else ():
        with frozen(scanner):
            scene.happen(2)
            scene.let_die("scanner", point)

    scene.assert_each_step_happened_once()
    assert scene.doubled_calls == 0
