"""An older release is replaced process by process while work flows: nothing is lost or doubled."""

import itertools
import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
import urllib3

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.lifecycle import wait_until
from tests.e2e.installation import ROOT, SECONDS, Workspace, notify, scheduled

_OLD = "0.0.9"
_UNDER_WAY = 40
_PROCESSES = ("api", "scanner", "scanner", "worker", "worker")
_TOMORROW = "SELECT to_char(clock_timestamp() + interval '23 hours', 'YYYY-MM-DD HH24:MI')"
_OPEN = """
SELECT
    (SELECT count(*) FROM trigger_run WHERE status IN ('pending', 'running')),
    (SELECT count(*) FROM scheduled_action WHERE status IN ('pending', 'processing'))
"""
_TOLD = """
SELECT
    (SELECT count(*) FROM trigger_run WHERE status = 'done'),
    (SELECT count(*) FROM scheduled_action WHERE status = 'done'),
    (SELECT count(*) FROM chat_message),
    (SELECT count(*) FROM record WHERE table_id = %s)
"""
_TROUBLE = """
SELECT count(*) FROM (
    SELECT attempts, worker_losses FROM trigger_run
    UNION ALL SELECT attempts, worker_losses FROM scheduled_action
) AS work
WHERE attempts > 1 OR worker_losses > 0
"""
_WORKERS = "SELECT release, stopped_at IS NOT NULL, count(*) FROM worker GROUP BY 1, 2 ORDER BY 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the installation, and where it tells whether it is ready."""

    child: Child
    health_url: str

    def is_ready(self):
        try:
            return urllib3.request("GET", f"{self.health_url}/readyz", retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False


class Flow:
    """Pairs of a record and an event; each of the two leads to one call in the end.

    A record fires two triggers, one of them by its date; an event a rule with two actions, one of
    them delayed. Who sends meets processes that end, and sends again under the same key.
    """

    def __init__(self, installation, workspace, conn, receiver):
        self._installation = installation
        self._receiver = receiver
        self._ended = threading.Event()
        self.api_urls = [installation.api_url]
        self._numbers, self._turns = itertools.count(), itertools.count()
        self.pairs = []
        self._due = conn.execute(_TOMORROW).fetchone()[0]
        self.told = workspace.make_table("told", title="text")
        self._orders = workspace.make_table("orders", title="text", due="datetime")
        call = {"type": "api_call", "method": "POST", "url": receiver.url}
        copy = {"type": "create_record", "table_id": self.told, "data": {"title": "$row.title"}}
        message = notify("it came", chatroom=str(uuid4()))
        a_day_before = {"type": "date_column_reached", "column": "due", "offset_minutes": -1440}
        workspace.set_triggers(
            self._orders,
            {"on": "record_created", "actions": [message, call]},
            scheduled(a_day_before, copy),
        )
        delayed = {**call, "delay": {"seconds": 1}}
        rule = {"name": "paid", "event": "paid", "actions": [message, delayed]}
        workspace.call("POST", "/v1/trigger-rules", rule)

    @contextmanager
    def running(self):
        """Send during the block; what a sender met is raised at its end."""
        with ThreadPoolExecutor(2) as pool:
            senders = [pool.submit(self._send) for _ in range(2)]
            try:
                yield
            finally:
                self._ended.set()
        for sender in senders:
            sender.result()

    def wait_for_more(self, count=15):
        """Wait until so many more calls have come."""
        enough = len(self._receiver.requests) + count
        self._installation.wait(lambda: len(self._receiver.requests) >= enough)

    def _send(self):
        path = f"/tenant/custom-tables/tables/{self._orders}/records"
        while self._wants_more():
            number = next(self._numbers)
            body = {"data": {"title": f"order {number}", "due": self._due}}
            self._post(path, body, key=f"record-{number}")
            event = {"name": "paid", "idempotency_key": f"event-{number}"}
            self._post("/v1/events", event, key=event["idempotency_key"])
            self.pairs.append(number)

    def _wants_more(self):
        """Wait while much is under way; False when the flow has ended."""

        def may_go_on():
            under_way = 2 * len(self.pairs) - len(self._receiver.requests)
            return under_way < _UNDER_WAY or self._ended.is_set()

        assert wait_until(may_go_on, seconds=SECONDS, every_seconds=0.01)
        return not self._ended.is_set()

    def _post(self, path, body, *, key):
        token = self._installation.environment["DUEBOOK_TOKEN"]
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}

        def is_taken():
            url = self.api_urls[next(self._turns) % len(self.api_urls)]
            try:
                answer = urllib3.request(
                    "POST", url + path, json=body, headers=headers, retries=False, timeout=30.0
                )
            except urllib3.exceptions.HTTPError:
                return False
            assert answer.status in (200, 201), answer.data.decode()
            return True

        assert wait_until(is_taken, seconds=SECONDS)


@pytest.fixture
def older_release(tmp_path):
    """A copy of the tree that says of itself that it is another release."""
    folder = tmp_path / "older"
    for part in ("services", "shared", "migrations", "deploy"):
        no_bytecode = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=no_bytecode)
    metadata = folder / f"duebook-{_OLD}.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: duebook\nVersion: {_OLD}\n")
    return folder


def _start(installation, service, *, folder=None, **settings):
    """Start a process of this release, or of that in the folder."""
    port = str(free_port())
    arguments = None
    if folder is not None:
        settings |= {
            "PYTHONPATH": str(folder),
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        gunicorn = ["gunicorn", "--chdir", folder, "-c", folder / "deploy/gunicorn.conf.py"]
        arguments = [*gunicorn, "services.api.wsgi:app"] if service == "api" else None
    child = installation.start(service, arguments=arguments, HEALTH_PORT=port, **settings)
    return Process(child=child, health_url=f"http://127.0.0.1:{port}")


def _end(installation, process):
    os.kill(process.child.pid, signal.SIGTERM)
    return installation.status_of(process.child)


def _release_of_api(url):
    return urllib3.request("GET", f"{url}/openapi.json").json()["info"]["version"]


def test_a_rolling_change_under_load_loses_and_doubles_nothing(
    install, amqp_url, older_release, conn, receiver
):
    installation = install(amqp_url)
    old = [_start(installation, service, folder=older_release) for service in _PROCESSES]
    installation.wait(lambda: all(process.is_ready() for process in old))
    flow = Flow(installation, Workspace(installation), conn, receiver)
    assert _release_of_api(installation.api_url) == _OLD
    # Bytecode that its processes wrote: it is the copy that runs.
    for service in ("api", "scanner", "worker"):
        assert list(older_release.glob(f"services/{service}/__pycache__/*.pyc"))
    new_api = f"http://127.0.0.1:{free_port()}"
    flow.api_urls = [installation.api_url, new_api]

    with flow.running():
        flow.wait_for_more()
        for service, before in zip(_PROCESSES, old, strict=True):
            behind = _start(installation, service, API_PORT=new_api.rpartition(":")[2])
            installation.wait(behind.is_ready)
            flow.wait_for_more()
            assert _end(installation, before) == 0
            flow.wait_for_more()
    installation.api_url = installation.environment["DUEBOOK_API"] = new_api

    pairs = len(flow.pairs)
    # What is due by its date is found later than what was caused by a request.
    installation.wait(lambda: conn.execute(_TOLD, [flow.told]).fetchone()[-1] >= pairs)
    installation.wait(lambda: conn.execute(_OPEN).fetchone() == (0, 0))

    assert conn.execute(_TOLD, [flow.told]).fetchone() == (2 * pairs, 2 * pairs, 2 * pairs, pairs)
    keys = [request.headers["idempotency-key"] for request in receiver.requests]
    assert len(keys) == len(set(keys)) == 2 * pairs
    assert conn.execute(_TROUBLE).fetchone() == (0,)
    releases = {release: (ended, count) for release, ended, count in conn.execute(_WORKERS)}
    assert releases == {_OLD: (True, 2), _release_of_api(new_api): (False, 2)}
    assert installation.verify()["ok"]
