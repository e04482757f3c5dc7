"""Work of every kind, some of it always open: what an operator's change has to bring to its end."""

import json
import threading
from collections import defaultdict
from contextlib import contextmanager
from uuid import uuid4

import urllib3

from shared.lifecycle import wait_until
from tests.e2e.installation import notify, scheduled

TARGET = "https://example.com/offer"
_DUE = "2020-01-01 09:00"
_A_DAY = 86_400

_OPEN = """
SELECT
    (SELECT count(*) FROM trigger_run WHERE status IN ('pending', 'running')),
    (SELECT count(*) FROM scheduled_action WHERE status IN ('pending', 'processing')),
    (SELECT count(*) FROM staged_change WHERE status IN ('pending', 'approved'))
"""
_WAITS = """
SELECT link.token
FROM scheduled_action AS wait
JOIN tracking_link AS link ON link.id = wait.tracking_link_id
WHERE wait.status = 'pending' AND wait.mode = 'waitForTracking' AND wait.branch IS NULL
"""
_MADE = """
SELECT
    (SELECT count(*) FROM record WHERE table_id = %(orders)s),
    (SELECT count(*) FROM record WHERE table_id = %(held)s),
    (SELECT count(*) FROM event)
"""
_TOLD = """
SELECT
    (SELECT count(*) FROM trigger_run WHERE status = 'done'),
    (SELECT count(*) FROM scheduled_action WHERE status = 'done'),
    (SELECT count(*) FROM staged_change WHERE status = 'applied'),
    (SELECT count(*) FROM chat_message),
    (SELECT count(*) FROM record WHERE table_id = %(told)s),
    (SELECT count(*) FROM record WHERE table_id = %(reviewed)s)
"""
_ABOUT = """
SELECT 'created ' || (data ->> 'c1') FROM record WHERE table_id = %(orders)s
UNION ALL SELECT 'due ' || (data ->> 'c1') FROM record WHERE table_id = %(orders)s
UNION ALL SELECT 'paid ' || (data ->> 'number') FROM event
UNION ALL SELECT 'step ' || (data ->> 'number') FROM event
"""


class Work:
    """An order fires two triggers, an event a delayed call and a workflow that waits for a click.

    ``receiver`` is told of each, once in a good world; an order of ``held`` keeps its worker with
    ``slow`` until that lets go.
    """

    def __init__(self, workspace, receiver, slow):
        self._workspace, self._receiver, self._slow = workspace, receiver, slow
        self._sent = 0
        self.tables = {
            "told": workspace.make_table("told", title="text"),
            "reviewed": workspace.make_table("reviewed", title="text"),
            "held": workspace.make_table("held", title="text"),
            "orders": workspace.make_table("orders", title="text", due="datetime"),
        }
        self._author()

    def _author(self):
        workspace, tables = self._workspace, self.tables
        path = f"/tenant/custom-tables/tables/{tables['reviewed']}"
        workspace.call("PATCH", path, {"approval": "required"})
        copies = [
            {"type": "create_record", "table_id": tables[name], "data": {"title": "$row.title"}}
            for name in ("told", "reviewed")
        ]
        workspace.set_triggers(
            tables["orders"],
            {
                "on": "record_created",
                "actions": [notify("new", chatroom=str(uuid4())), self._call("created $row.title")],
            },
            scheduled(
                {"type": "date_column_reached", "column": "due"},
                *copies,
                self._call("due $row.title"),
            ),
        )
        held = self._call("held $row.title", to=self._slow)
        workspace.set_triggers(tables["held"], {"on": "record_created", "actions": [held]})
        said = notify("$link.offer", chatroom=str(uuid4()))
        wait = {
            "type": "wait_for_tracking",
            "seconds": _A_DAY,
            "link": "offer",
            "target_url": TARGET,
            "clicked": [_step(notify("thanks", chatroom=str(uuid4())))],
        }
        nodes = [_step(self._call("step $event.number")), _step(said), wait]
        workspace.call("POST", "/v1/workflows", {"name": "follow-up", "nodes": nodes})
        rule = {
            "name": "paid",
            "event": "paid",
            "actions": [
                {**self._call("paid $event.number"), "delay": {"seconds": 2}},
                {"type": "start_workflow", "workflow": "follow-up", "delay": {"seconds": 1}},
            ],
        }
        workspace.call("POST", "/v1/trigger-rules", rule)

    def _call(self, about, *, to=None):
        url = (to or self._receiver).url
        return {"type": "api_call", "method": "POST", "url": url, "body": {"about": about}}

    def move_to(self, installation):
        """Go on at another installation, over a copy of the database."""
        self._workspace.move_to(installation)

    def send(self):
        """Make an order and an event."""
        self._sent += 1
        number = self._sent
        self._workspace.make_record(self.tables["orders"], title=str(number), due=_DUE)
        self._workspace.call("POST", "/v1/events", {"name": "paid", "data": {"number": number}})

    def hold(self):
        """Have a worker begin what it does not end."""
        self._workspace.make_record(self.tables["held"], title="slow")
        assert wait_until(lambda: self._slow.requests, seconds=60)

    @contextmanager
    def flowing(self):
        """Send during the block; what the sender met is raised at its end."""
        ended, faults = threading.Event(), []

        def send():
            try:
                while not ended.wait(0.05):
                    self.send()
            except BaseException as fault:
                faults.append(fault)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()
        assert faults == []

    def keys_of(self, requests):
        """The keys under which the receiver was told, by what it was told."""
        told = defaultdict(set)
        for request in requests:
            told[json.loads(request.body)["about"]].add(request.headers["idempotency-key"])
        return told

    def bring_to_its_end(self, installation, conn):
        """Click, approve, and wait until nothing is open any more."""

        def is_over():
            for (token,) in conn.execute(_WAITS).fetchall():
                url = f"{installation.api_url}/t/{token}"
                assert urllib3.request("GET", url, redirect=False, retries=False).status == 302
            path = f"/tenant/custom-tables/tables/{self.tables['reviewed']}/staged-changes"
            self._workspace.call("POST", f"{path}/approve", {"operation": "create"})
            return conn.execute(_OPEN).fetchone() == (0, 0, 0)

        # A change announced to a worker that is gone is offered again after 60 s, then 120.
        installation.patience_seconds = 240.0
        installation.wait(is_over, every_seconds=0.5)

    def assert_exact(self, conn):
        """What stands in the database has had its effects once, and each call had one key."""
        orders, held, events = conn.execute(_MADE, self.tables).fetchone()
        assert conn.execute(_TOLD, self.tables).fetchone() == (
            2 * orders + held,
            6 * events,
            orders,
            orders + 2 * events,
            orders,
            orders,
        )
        keys = self.keys_of(self._receiver.requests)
        about = [name for (name,) in conn.execute(_ABOUT, self.tables)]
        assert len(about) == 2 * (orders + events)
        assert {len(keys[name]) for name in about} == {1}


def _step(action):
    return {"type": "action", "action": action}
