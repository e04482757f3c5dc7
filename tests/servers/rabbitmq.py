"""One RabbitMQ broker for a test session: found, or started from what the machine has.

Every test has a virtual host of its own in it. The node is alone on 127.0.0.1, reads no system
file and writes only into its folder.
"""

import base64
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import urllib3

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.lifecycle import wait_until
from tests.servers.rabbitmq_programs import Programs, find_programs
from tests.servers.temporary import temporary_folder

_START_SECONDS = 120.0
_USER = "duebook"
_EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker: its AMQP URL without a virtual host, and its management URL."""

    amqp_url: str
    management_url: str
    password: str
    user: str = _USER

    def call(self, method: str, path: str, body: object = None) -> object:
        """Ask the management API, as in ``call("GET", "/api/queues/vhost")``."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        answer = urllib3.request(
            method,
            self.management_url + path,
            headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
            body=None if body is None else json.dumps(body),
            retries=False,
            timeout=10.0,
        )
        if answer.status >= 300:
            raise RuntimeError(f"RabbitMQ: {method} {path}: {answer.status} {answer.data[:300]!r}")
        return json.loads(answer.data) if answer.data else None

    def create_vhost(self, name: str) -> str:
        """Make a virtual host and return its AMQP URL."""
        self.call("PUT", f"/api/vhosts/{name}")
        self.call("PUT", f"/api/permissions/{name}/{self.user}", _EVERYTHING)
        return f"{self.amqp_url}/{quote(name, safe='')}"

    def delete_vhost(self, name: str) -> None:
        """Remove a virtual host with its queues; connections to it end."""
        self.call("DELETE", f"/api/vhosts/{name}")

    def answers(self) -> bool:
        """Whether it is up: its management answers and its AMQP port is open."""
        try:
            return bool(self.call("GET", "/api/nodes"))
        except (RuntimeError, urllib3.exceptions.HTTPError):
            return False


class Node:
    """A broker that we run, so that a test may end it and start it again as it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = find_programs()
        self._ports = {name: free_port() for name in ("amqp", "management", "dist", "epmd")}
        password = secrets.token_urlsafe(16)
        self.broker = Broker(
            amqp_url=f"amqp://{_USER}:{password}@127.0.0.1:{self._ports['amqp']}",
            management_url=f"http://127.0.0.1:{self._ports['management']}",
            password=password,
        )
        self._environment = _prepare(folder, self._programs, self._ports, password)
        # Our own epmd: one that the node starts outlives it.
        self._epmd = self._spawn(
            [self._programs.epmd, "-port", str(self._ports["epmd"]), "-address", "127.0.0.1"],
            temporary=True,
        )
        self._server: Child | None = None

    @property
    def pid(self) -> int | None:
        """The process of the broker, which started all others of it; None while it is down."""
        return None if self._server is None else self._server.pid

    def start(self) -> None:
        """Start it with what its folder holds, unless it runs, and wait until it answers."""
        if self._server is not None:
            return
        self._server = self._spawn([self._programs.sbin / "rabbitmq-server"])
        server = self._server
        wait_until(
            lambda: self.broker.answers() or server.poll() is not None,
            seconds=_START_SECONDS,
            every_seconds=0.1,
        )
        if not self.broker.answers():
            log = (self._folder / "output").read_text(errors="replace")
            raise RuntimeError(f"RabbitMQ does not start:\n{log[-3000:]}")

    def stop(self) -> None:
        """End it in good order (about 7 s)."""
        if self._server is not None:
            self._server.stop(seconds=_START_SECONDS)
            self._server = None

    def kill(self) -> None:
        """End it at once, as a power cut would.

        It takes some seconds until a new queue is on disk: killed before, the broker comes back
        with a queue that has a name and cannot be used.
        """
        if self._server is not None:
            self._server.kill()
            self._server = None

    def forget(self) -> None:
        """Lose, while it is down, everything that it holds: it comes back empty."""
        shutil.rmtree(self._folder / "mnesia", ignore_errors=True)

    def control(self, *arguments: str) -> None:
        """Run rabbitmqctl with these arguments."""
        subprocess.run(
            [self._programs.sbin / "rabbitmqctl", *arguments],
            env=self._environment,
            check=True,
            capture_output=True,
        )

    def close(self) -> None:
        """End it for good."""
        self.kill()
        self._epmd.kill()

    def _spawn(self, arguments: list[str | Path], *, temporary: bool = False) -> Child:
        with (self._folder / "output").open("ab") as output:
            return Child(
                arguments,
                environment=self._environment,
                output=output,
                temporary_folder=self._folder if temporary else None,
            )


@contextmanager
def running_node() -> Iterator[Node]:
    """Run a broker of our own for the block."""
    with temporary_folder("rabbitmq") as folder:
        node = Node(folder)
        try:
            node.start()
            yield node
        finally:
            node.close()


def given_broker() -> Broker | None:
    """Return the broker that AMQP_URL and AMQP_MANAGEMENT_URL name, or None."""
    if not (amqp_url := os.environ.get("AMQP_URL")):
        return None
    parts = urlsplit(amqp_url)
    management = os.environ.get("AMQP_MANAGEMENT_URL")
    if not management:
        raise RuntimeError("AMQP_URL is set: set AMQP_MANAGEMENT_URL too (http://host:15672)")
    return Broker(
        amqp_url=f"{parts.scheme}://{parts.netloc}",
        management_url=management.rstrip("/"),
        user=parts.username or "guest",
        password=parts.password or "guest",
    )


def _prepare(
    folder: Path, programs: Programs, ports: dict[str, int], password: str
) -> dict[str, str]:
    folder.chmod(0o700)
    (folder / "plugins").write_text("[rabbitmq_management].\n")
    (folder / "rabbitmq.conf").write_text(_configuration(ports, password))
    busy = "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"  # busy waiting would eat a core
    return {
        **programs.environment,
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_USE_LONGNAME": "true",
        "RABBITMQ_NODENAME": f"n{ports['amqp']}@127.0.0.1",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "config"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_DIST_PORT": str(ports["dist"]),
        "ERL_EPMD_PORT": str(ports["epmd"]),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
            f"-kernel inet_dist_use_interface {{127,0,0,1}} -start_epmd false {busy}"
        ),
        "ERL_CRASH_DUMP_SECONDS": "0",
        "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the node, instead of waiting for it
    }


def _configuration(ports: dict[str, int], password: str) -> str:
    return f"""\
listeners.tcp.1 = 127.0.0.1:{ports["amqp"]}
default_user = {_USER}
default_pass = {password}
management.tcp.ip = 127.0.0.1
management.tcp.port = {ports["management"]}
log.file = false
log.console = true
log.console.level = warning
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
"""
