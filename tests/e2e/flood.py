"""Flights that come due while something fails: each with effects that can be counted."""

from uuid import uuid4

from tests.e2e.flights import COLUMNS, IMPORT, an_hour_before_departure, count
from tests.e2e.installation import notify

_CARRIERS = ["UA"]
_DONE = "SELECT count(*) FROM trigger_run WHERE status = 'done'"
_OPEN = "SELECT count(*) FROM trigger_run WHERE status IN ('pending', 'running')"
_MESSAGES = "SELECT count(*) FROM chat_message"
_RECORDS = "SELECT count(*) FROM record WHERE table_id = %s"


class Flood:
    """Flights come due, each with a message, a call and a record; faults strike meanwhile."""

    def __init__(self, installation, workspace, conn, receiver):
        self.installation = installation
        self._conn = conn
        self._receiver = receiver
        self.expected = count(carriers=_CARRIERS)
        self._told = workspace.make_table("told", flight="text")
        flights = workspace.make_table("flights", **COLUMNS)
        actions = [
            notify("$row.flight", chatroom=str(uuid4())),
            {"type": "api_call", "method": "POST", "url": receiver.url},
            {"type": "create_record", "table_id": self._told, "data": {"flight": "$row.tailnum"}},
        ]
        workspace.set_triggers(flights, an_hour_before_departure(*actions, carriers=_CARRIERS))
        installation.told("records", "import", "flights", *IMPORT, "--chunk", 500)

    def count(self, statement, *parameters):
        return self._conn.execute(statement, parameters).fetchone()[0]

    def wait_until_done(self, share):
        """Wait until this share of all runs is done."""
        self.installation.wait(lambda: self.count(_DONE) >= share * self.expected)

    def assert_each_happened_once(self):
        """Internal effects exactly once; calls at least once, each under a key of its own."""
        self.wait_until_done(1)
        assert self.count(_OPEN) == 0
        assert self.count(_DONE) == self.expected
        assert self.count(_MESSAGES) == self.expected
        assert self.count(_RECORDS, self._told) == self.expected
        keys = [request.headers["idempotency-key"] for request in self._receiver.requests]
        assert len(set(keys)) == self.expected
        assert self.installation.verify()["ok"]
        return len(keys) - self.expected
