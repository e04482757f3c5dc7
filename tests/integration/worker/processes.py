"""Workers as processes."""

import os
import signal
import sys
import threading
from contextlib import contextmanager

import urllib3

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from tests.integration.actions.receivers import a_receiver


class WorkerProcess:
    """A worker that runs; ``arguments`` are those of ``python -m``."""

    def __init__(self, environment, log, arguments=("services.worker",)):
        self._port = free_port()
        self._log = log
        defaults = {
            "AMQP_URL": "",
            "WORKER_THREADS": "4",
            "ALLOWED_NETWORKS": "127.0.0.0/8",
            "ACTION_DEADLINE_SECONDS": "10",
            "GRACE_SECONDS": "25",
            "HEALTH_PORT": str(self._port),
        }
        with log.open("wb") as output:
            self.child = Child(
                [sys.executable, "-m", *arguments],
                environment={**os.environ, **defaults, **environment},
                output=output,
            )

    @property
    def pid(self):
        return self.child.pid

    def poll(self):
        """Return its exit status, None while it runs."""
        return self.child.poll()

    def terminate(self):
        """Ask it to stop, as an orchestrator does."""
        os.kill(self.pid, signal.SIGTERM)

    def health(self, path="/readyz"):
        """Return what it says of itself, None while it says nothing."""
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self._port}{path}", retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.data.decode().strip()

    def log(self):
        """Return what it has written."""
        return self._log.read_text(errors="replace")


@contextmanager
def a_held_receiver():
    """A receiver whose answers wait until its ``let_go`` is set."""
    with a_receiver() as receiver:
        receiver.let_go = threading.Event()
        yield receiver
