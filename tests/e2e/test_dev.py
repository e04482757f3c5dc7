"""``duebook dev`` from a copy of the checkout, as a newcomer starts it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import urllib3

from shared.lifecycle import wait_until
from tests.e2e.installation import ROOT, SECONDS
from tests.e2e.pages import PASSWORD, Operator
from tests.servers.postgres import bare_postgres
from tests.servers.temporary import temporary_folder

_COMMAND = "from services.cli.main import main; main()"
_KINDS = {"date_column_reached", "interval", "daily", "cron", "record_created"}


class Dev:
    """A running ``duebook dev``."""

    def __init__(self, folder, port):
        self._folder = folder
        self._log = folder / f"log-{port}"
        self._environment = {
            key: value
            for key, value in os.environ.items()
            if key not in ("DATABASE_URL", "AMQP_URL", "API_PORT")
        }
        self.process = self._spawn("dev", "--port", str(port), stdout=self._log.open("wb"))
        assert wait_until(self._is_up, seconds=SECONDS), self.output()

    def output(self):
        return self._log.read_text()

    def told(self, label):
        return re.search(rf"^ +{label} +(\S+)", self.output(), re.MULTILINE)[1]

    def metrics(self):
        """The address by process where it tells its metrics."""
        ports = re.findall(r"(\d+) \((API|scanner|worker)\)", self.output())
        return {process: f"http://127.0.0.1:{port}/metrics" for port, process in ports}

    def runs(self):
        """What ``duebook runs`` tells somebody who took over the environment that dev wrote."""
        command = f'. .run/environment; exec "{sys.executable}" -c "{_COMMAND}" runs --json'
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def end(self, number):
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def _spawn(self, *arguments, stdout):
        with stdout:
            return subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _is_up(self):
        return "Ctrl-C ends it" in self.output() or self.process.poll() is not None


@pytest.fixture
def checkout():
    """A copy of what a checkout has, where the server of ``duebook dev`` can reach it."""
    with temporary_folder("checkout") as folder:
        for name in ("services", "shared", "migrations", "deploy"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        yield folder


@pytest.fixture
def start_dev(checkout):
    """Starts ``duebook dev`` in the copy; whatever happens, it does not stay."""
    started = []

    def start(port):
        started.append(Dev(checkout, port))
        return started[-1]

    yield start
    for dev in started:
        dev.process.kill()
        dev.process.wait()


# The session's server is asked for now, to be old enough for the tests that kill: one younger than
# 30 s takes nobody's runs back by their locks.
@pytest.mark.usefixtures("postgres_process")
def test_everything_starts_fires_within_a_minute_and_ends_with_ctrl_c(start_dev, unused_port):
    dev = start_dev(unused_port)

    def fired():
        return {run["kind"] for run in dev.runs() if run["status"] == "done"} >= _KINDS

    assert wait_until(fired, seconds=SECONDS, every_seconds=1.0), dev.output()
    assert urllib3.request("GET", dev.told("Reference")).status == 200
    assert set(dev.metrics()) == {"API", "scanner", "worker"}
    for address in dev.metrics().values():
        assert b"duebook_clock_ahead_seconds" in urllib3.request("GET", address).data
    assert dev.end(signal.SIGINT) == 0

    again = start_dev(unused_port)
    assert again.told("Token") == dev.told("Token")
    assert len(again.runs()) >= len(_KINDS)
    assert again.end(signal.SIGTERM) == 0


def test_its_workspace_moves_to_a_server(start_dev, checkout, unused_port):
    dev = start_dev(unused_port)
    operator = Operator("backup.md", folder=checkout)
    operator.follow("From `make run` to a server")
    assert dev.end(signal.SIGINT) == 0

    with bare_postgres() as server:
        operator.environment |= {
            "ADMIN_URL": server.url("postgres"),
            "DATABASE_URL": server.url("duebook", role="duebook", password=PASSWORD),
        }
        for block in range(3):
            said = operator.follow("Restore a dump", block)
        tokens = operator.run("duebook token list --tenant 'Sample workspace' --json")
        tables = operator.run("duebook tables --json --tenant 'Sample workspace'")

    assert "every invariant holds" in said
    assert len(json.loads(tokens)) == 1
    assert "案件" in {table["name"] for table in json.loads(tables)}
