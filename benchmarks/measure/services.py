"""The product's processes, started as an installation starts them."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import urllib3

from benchmarks.measure.seeds import add_tenant
from benchmarks.measure.servers import Database
from services.cli.api import Api
from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.db.clock import server_now
from shared.lifecycle import wait_until
from shared.usecases.tokens import issue_token

_READY_SECONDS = 60.0
_GUNICORN = Path(sys.executable).with_name("gunicorn")
_ADMIN_TOKEN = "the token of the bench"


@contextmanager
def running_service(arguments: list[str | Path], environment: dict[str, str]) -> Iterator[Child]:
    """Run a process of the product until the end of the block, ready when it begins."""
    port = free_port()
    child = Child(
        arguments,
        environment={
            **os.environ,
            "LOG_LEVEL": "WARNING",
            "HEALTH_PORT": str(port),
            **environment,
        },
    )
    try:
        ready = wait_until(
            lambda: _is_ready(port) or child.poll() is not None, seconds=_READY_SECONDS
        )
        if not ready or child.poll() is not None:
            raise RuntimeError(f"{arguments} is not ready")
        yield child
    finally:
        child.stop(seconds=_READY_SECONDS)


@contextmanager
def running_api(
    database: Database, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Child, Api]]:
    """Run the API under gunicorn; with it comes a client that may do everything in one tenant."""
    port = free_port()
    command = [_GUNICORN, "-c", "deploy/gunicorn.conf.py", "services.api.wsgi:app"]
    environment = {
        "DATABASE_URL": database.url,
        "ADMIN_TOKEN": _ADMIN_TOKEN,
        "API_PORT": str(port),
        **(environment or {}),
    }
    _, token = issue_token(
        database.conn,
        tenant_id=add_tenant(database.conn),
        name="bench",
        role="moderator",
        channel_id=None,
        secret=os.urandom(32),
        now=server_now(database.conn),
    )
    with running_service(command, environment) as child:
        api = Api(f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"})
        yield child, api


@contextmanager
def running_scanner(environment: dict[str, str]) -> Iterator[Child]:
    """Run a scanner."""
    with running_service([sys.executable, "-m", "services.scanner"], environment) as child:
        yield child


@contextmanager
def running_worker(environment: dict[str, str]) -> Iterator[Child]:
    """Run a worker that knows the actions that do nothing."""
    command = [sys.executable, "-m", "benchmarks.measure.noop_worker"]
    with running_service(command, environment) as child:
        yield child


@contextmanager
def running_receiver(seconds: float) -> Iterator[int]:
    """Run a receiver that answers after so many seconds, and return its port."""
    command = [sys.executable, "-m", "benchmarks.measure.slow_receiver", str(seconds)]
    read, write = os.pipe()
    child = Child(command, environment=os.environ, output=write)
    os.close(write)
    try:
        with os.fdopen(read) as output:
            yield int(output.readline())
    finally:
        child.kill()


def _is_ready(port: int) -> bool:
    try:
        answer = urllib3.request(
            "GET", f"http://127.0.0.1:{port}/readyz", retries=False, timeout=2.0
        )
    except urllib3.exceptions.HTTPError:
        return False
    return answer.status == 200
