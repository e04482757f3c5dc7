"""The installation of a run: five processes, and a proxy on each way from one of them to a server.

Each service has a login of its own on PostgreSQL, as in a large installation. A process that is
started again is the same in every respect but its process id.
"""

import json
import os
import re
import signal
import threading
from contextlib import suppress

from services.cli.embedded_postgres import free_port
from shared.db.roles import API, SCANNER, WORKER
from shared.lifecycle import wait_until
from tests.chaos.plan import PROCESSES
from tests.e2e.installation import Installation
from tests.servers.faulty_proxy import FaultyProxy
from tests.servers.postgres import LOGINS, ROLE

_STOP_SECONDS = 40.0
_LOGINS = {"api": LOGINS[API], "scanner": LOGINS[SCANNER], "worker": LOGINS[WORKER]}
_VARIABLES = {"postgres": "DATABASE_URL", "broker": "AMQP_URL", "redis": "REDIS_URL"}
_STARTED = re.compile(r'^\{.*"worker_started".*\}$', re.MULTILINE)


class World:
    """Processes by name, and their ways to the servers."""

    def __init__(self, servers, *, logs, settings):
        self._logs = logs
        self._servers = servers
        urls = servers.urls(ROLE)
        self.installation = Installation(
            database_url=urls["postgres"],
            amqp_url=urls.get("broker"),
            logs=logs,
            MAX_RETRIES="10",
            RATE_LIMIT="0",
            REFUSAL_LIMIT="0",
            **settings,
        )
        self.links = {
            name: {server: FaultyProxy(url) for server, url in servers.urls(_login(name)).items()}
            for name in PROCESSES
        }
        self._children = {}
        self._names = []
        self._down = set()
        self._starting = threading.Lock()
        self.ended_themselves = []
        self._health = {name: str(free_port()) for name in PROCESSES}

    def start(self, name):
        """Start a process, unless it runs."""
        with self._starting:
            child = self._children.get(name)
            if child is not None and child.poll() is None:
                return
            ways = {_VARIABLES[server]: way.url for server, way in self.links[name].items()}
            self._names.append(name)
            self._children[name] = self.installation.start(
                _service(name), **ways, HEALTH_PORT=self._health[name]
            )
            self._down.discard(name)

    def start_all(self):
        for name in PROCESSES:
            self.start(name)

    def kill(self, name):
        self._down.add(name)
        self._children[name].kill()

    def stop(self, name):
        """Tell a process to stop, and wait until it has; return its exit status."""
        self._down.add(name)
        os.kill(self._children[name].pid, signal.SIGTERM)
        return self._children[name].wait(seconds=_STOP_SECONDS)

    def freeze(self, name):
        with suppress(ProcessLookupError):
            os.killpg(self._children[name].pid, signal.SIGSTOP)

    def thaw(self, name):
        with suppress(ProcessLookupError):
            os.killpg(self._children[name].pid, signal.SIGCONT)

    def start_what_ended(self):
        """Start again what ended by itself, as whoever runs it would; return names and statuses."""
        with self._starting:
            polled = {name: child.poll() for name, child in self._children.items()}
            ended = {
                name: status
                for name, status in polled.items()
                if status is not None and name not in self._down
            }
        for name, status in ended.items():
            self.ended_themselves.append(f"{name} ({status})")
            self.start(name)
        return ended

    def aim(self):
        """Lead every way to where its server is by now."""
        for name, ways in self.links.items():
            for server, url in self._servers.urls(_login(name)).items():
                ways[server].aim(url)

    def wait_until_ready(self, seconds):
        return wait_until(self.installation.answers, seconds=seconds, every_seconds=0.2)

    def workers(self):
        """By the id that a worker registered under the name of its process."""
        found = {}
        for number, name in enumerate(self._names):
            if not name.startswith("worker"):
                continue
            text = (self._logs / f"{number:02}-worker.log").read_text(errors="replace")
            for line in _STARTED.findall(text):
                found[json.loads(line)["worker_id"]] = name
        return found

    def close(self):
        self.installation.stop()
        for ways in self.links.values():
            for proxy in ways.values():
                proxy.close()


def _service(name):
    return name.partition("-")[0]


def _login(name):
    return _LOGINS[_service(name)]
