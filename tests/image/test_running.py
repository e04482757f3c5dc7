"""What the Dockerfile makes, run as the compose file says, with its logins."""

import importlib.util
import subprocess
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import urllib3

from services.cli.children import Child
from services.cli.embedded_postgres import free_port, start_postgres
from tests.e2e.installation import Installation, Workspace, notify
from tests.image.dockerfile import COMPOSE, our_services
from tests.image.following import followed
from tests.servers.temporary import temporary_folder

_OURS = our_services()
_DATABASE = "duebook"
_SERVICES = ("api", "scanner", "worker")


@pytest.fixture(scope="module")
def image():
    with followed() as image:
        yield image


@pytest.fixture
def laptop_postgres():
    """A server of its own, prepared as that of the compose file."""
    with temporary_folder("image-postgres") as folder:
        server = start_postgres(folder / "home", temporary=True)
        try:
            with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE {_DATABASE}")
            with psycopg.connect(server.url(_DATABASE), autocommit=True) as admin:
                admin.execute((COMPOSE.parent / "compose/logins.sql").read_text("utf-8"))
            yield server
        finally:
            server.stop()


class Containers:
    """The services of the compose file that are ours, as processes of this machine."""

    def __init__(self, image, *, servers, seen):
        self._image = image
        self._seen = seen
        self._children = {}
        self._environments = {
            name: {
                **image.environment,
                **{key: servers(key, value) for key, value in each["environment"].items()},
                # One machine for all: what their hosts would keep apart.
                **{"API_HOST": "127.0.0.1", "HEALTH_HOST": "127.0.0.1"},
                **{key: seen.environment[key] for key in ("API_PORT", "ADMIN_TOKEN")},
                "HEALTH_PORT": str(free_port()),
            }
            for name, each in _OURS.items()
        }

    def start(self, name, logs):
        """Start the command of a service."""
        with (logs / f"{name}.log").open("wb") as log:
            self._children[name] = Child(
                _OURS[name]["command"],
                environment=self._environments[name],
                output=log,
                run_as=self._image.run_as,
            )

    def end_of(self, name):
        """Wait for the end of a process and return its exit status."""
        return self._seen.status_of(self._children[name])

    def is_healthy(self, name):
        """Ask what the compose file asks."""
        _, *command = _OURS[name]["healthcheck"]["test"]
        port = self._environments[name]["HEALTH_PORT"]
        done = subprocess.run(
            [argument.replace(":8080/", f":{port}/") for argument in command],
            env=self._environments[name],
            capture_output=True,
            **self._image.run_as,
        )
        return done.returncode == 0

    def healthz(self, name):
        """Return the status of its liveness."""
        port = self._environments[name]["HEALTH_PORT"]
        return urllib3.request("GET", f"http://127.0.0.1:{port}/healthz", retries=False).status

    def terminate(self, name):
        """Ask it to end, as the image's STOPSIGNAL does; return its exit status."""
        return self._children[name].stop(seconds=self._seen.patience_seconds)

    def stop(self):
        """End what still runs."""
        for child in self._children.values():
            child.kill()


@pytest.fixture
def seen(tmp_path):
    """What the users of the API see."""
    return Installation(database_url="", amqp_url=None, logs=tmp_path)


@pytest.fixture
def containers(image, laptop_postgres, rabbit_url, redis_url, seen):
    given = {"AMQP_URL": rabbit_url, "REDIS_URL": redis_url}
    place = f"127.0.0.1:{laptop_postgres.port}"

    def servers(key, value):
        return given.get(key) or value.replace("@postgres:5432/", f"@{place}/")

    found = Containers(image, servers=servers, seen=seen)
    yield found
    found.stop()


def test_everything_has_its_bytecode_and_nobody_may_write(image):
    [packages] = image.root.glob("opt/duebook/lib/python3.*/site-packages")
    sources = list(packages.rglob("*.py"))

    assert len(sources) > 1000
    assert [path for path in sources if not _bytecode(path).exists()] == []
    assert [path for path in packages.rglob("*") if path.stat().st_mode & 0o222] == []
    assert {path.relative_to(image.root).as_posix() for path in image.root.glob("*/*")} == {
        "app/deploy",
        "opt/duebook",
    }


def test_the_image_runs_all_of_the_compose_file(image, containers, seen, tmp_path):
    before = image.files()

    containers.start("migrate", tmp_path)
    assert containers.end_of("migrate") == 0, seen.logs()
    for name in _SERVICES:
        containers.start(name, tmp_path)
    for name in _SERVICES:
        seen.wait(lambda name=name: containers.is_healthy(name))
    workspace = Workspace(seen)
    chatroom = str(uuid4())
    table = workspace.make_table("orders", title="text")
    told = notify("$row.title", chatroom=chatroom)
    workspace.set_triggers(table, {"on": "record_created", "actions": [told]})
    workspace.make_record(table, title="lamp")
    seen.wait(lambda: workspace.messages(chatroom) == ["lamp"])

    assert {name: containers.healthz(name) for name in _SERVICES} == dict.fromkeys(_SERVICES, 200)
    assert {name: containers.terminate(name) for name in _SERVICES} == dict.fromkeys(_SERVICES, 0)
    assert image.files() == before


def _bytecode(path):
    return Path(importlib.util.cache_from_source(path))
