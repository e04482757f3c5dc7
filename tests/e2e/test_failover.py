"""The primary dies and its standby takes over; the way to the database goes silent."""

import threading
from uuid import uuid4

import pytest

from tests.e2e.flood import Flood
from tests.e2e.installation import Workspace, notify, scheduled
from tests.servers.replication import running_pair

_SERVICES = ("api", "scanner", "scanner", "worker", "worker")
_DONE = "SELECT count(*) FROM trigger_run WHERE status = 'done'"
_LOSSES = "SELECT count(*) FROM trigger_run WHERE worker_losses > 0"
_KEPT = "SELECT count(*) FROM record WHERE table_id = %s"


@pytest.fixture
def pair():
    """A primary and its standby."""
    with running_pair() as pair:
        yield pair


class Writer:
    """Somebody who writes one record after the other, and each again until it is answered."""

    def __init__(self, workspace, table):
        self._workspace = workspace
        self._table = table
        self.answered = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)

    def _run(self):
        while not self._stop.is_set():
            key = str(uuid4())
            while not self._workspace.is_written(self._table, key):
                self._stop.wait(0.05)
            self.answered += 1


def _over(pair, install, amqp_url, *, services=_SERVICES):
    """Start an installation over the pair and return it with a workspace."""
    installation = install(
        amqp_url, DATABASE_URL=pair.url, ACTION_DEADLINE_SECONDS="60", GRACE_SECONDS="75"
    )
    for service in services:
        installation.start(service)
    installation.wait(installation.answers)
    return installation, Workspace(installation)


def test_with_a_synchronous_standby_a_lost_primary_loses_and_doubles_nothing(
    pair, install, amqp_url, receiver
):
    pair.confirm_on_the_standby()
    installation, workspace = _over(pair, install, amqp_url)
    receiver.let_go = threading.Event()
    flood = Flood(installation, workspace, pair, receiver)
    kept = workspace.make_table("kept", number="number")
    with Writer(workspace, kept) as writer:
        # Every thread is in a call when the primary goes.
        threads = 2 * int(installation.environment["WORKER_THREADS"])
        installation.wait(lambda: len(receiver.requests) == threads)

        pair.kill_primary()
        answered = writer.answered
        pair.promote()
        installation.wait(lambda: writer.answered > answered + 1)
        receiver.let_go.set()
        doubled_calls = flood.assert_each_happened_once()

    assert pair.execute(_KEPT, [kept]).fetchone() == (writer.answered,)
    # Workers that live are not taken for dead, though the new primary knew none of their locks.
    assert pair.execute(_LOSSES).fetchone() == (0,)
    assert doubled_calls == 0


def test_what_an_asynchronous_standby_lacks_happens_again_under_the_same_key(
    pair, install, receiver
):
    installation, workspace = _over(pair, install, None, services=("api", "worker", "worker"))
    chatroom = str(uuid4())
    table = workspace.make_table("cases", due="datetime")
    workspace.set_triggers(
        table,
        scheduled(
            {"type": "date_column_reached", "column": "due", "offset_minutes": 0},
            notify("due", chatroom=chatroom),
            {"type": "api_call", "method": "POST", "url": receiver.url},
        ),
    )
    workspace.make_record(table, due="2020-01-01 09:00")

    pair.cut()
    for _ in range(2):
        installation.start("scanner")
    installation.wait(lambda: pair.execute(_DONE).fetchone() == (1,))
    workspace.make_record(table)
    pair.kill_primary()
    pair.promote()
    assert pair.execute(_DONE).fetchone() == (0,)

    installation.wait(lambda: pair.execute(_DONE).fetchone() == (1,))
    assert workspace.messages(chatroom) == ["due"]
    assert len(workspace.records(table)) == 1
    first, second = receiver.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert installation.verify()["ok"]


def test_processes_leave_a_database_that_says_nothing_any_more(install, proxy):
    installation = install(None, DATABASE_URL=proxy.url)
    # Each session waits out its own silence, one behind the other within a process.
    installation.patience_seconds = 180.0
    for service in ("api", "scanner", "worker"):
        installation.start(service)
    installation.wait(installation.answers)
    workspace = Workspace(installation)
    chatroom = str(uuid4())
    table = workspace.make_table("cases", subject="text")
    created = {"on": "record_created", "actions": [notify("made", chatroom=chatroom)]}
    workspace.set_triggers(table, created)
    workspace.make_record(table)
    installation.wait(lambda: workspace.messages(chatroom) == ["made"])

    proxy.forget()
    key = str(uuid4())
    installation.wait(lambda: workspace.is_written(table, key))

    installation.wait(lambda: workspace.messages(chatroom) == ["made"] * 2)
