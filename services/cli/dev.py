"""A whole installation on one machine: database, API, scanner and worker, for ``duebook dev``."""

import errno
import fcntl
import os
import secrets
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import urllib3
from urllib3.exceptions import HTTPError

import services
from services.cli.children import Child
from services.cli.embedded_postgres import free_port, home_folder, start_postgres
from services.cli.sample_workspace import ensure_sample_workspace, ensure_token
from services.cli.supervisor import Supervisor
from shared.db.clock import server_now
from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database, ensure_role
from shared.errors import Unavailable
from shared.lifecycle import Stop, wait_until
from shared.settings import Settings, read_settings

_ROLE = _DATABASE = "duebook"
_READY_SECONDS = 60.0
_PORT_TRIES = 100
# Tells the server of ``duebook dev`` from one that somebody chose, in a shell that knows either.
_OUR_URL = "DUEBOOK_DEV_DATABASE_URL"
_GUNICORN = Path(services.__path__[0]).parent / "deploy/gunicorn.conf.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    """How somebody on this machine gets in."""

    api_url: str
    token: str
    is_new: bool


def run_dev(project: Path, stop: Stop, *, port: int) -> None:
    """Run everything until the stop. ``project`` keeps its data in ``.run``.

    ``port`` is the API's, or the first free one above it. Raises Ended when a part ends by itself.
    """
    if not _GUNICORN.exists():
        raise Unavailable("duebook dev runs from a checkout: deploy/gunicorn.conf.py is missing")
    folder = project / ".run"
    folder.mkdir(exist_ok=True)
    with alone_in(folder), _database(project) as parts:
        settings = read_settings("cli")
        _say("applying migrations")
        migrate(settings.database_url.reveal())
        grace_seconds = settings.grace_seconds + 5.0
        with Supervisor(watched=parts, grace_seconds=grace_seconds) as supervisor:
            _run_services(supervisor, settings, folder, stop, port=port)
            _say("stopping")
    _say("stopped")


def _run_services(
    supervisor: Supervisor, settings: Settings, folder: Path, stop: Stop, *, port: int
) -> None:
    api_port = first_free_port(port, host=settings.api_host)
    access = _prepare(
        settings, folder, api_url=f"http://{_reachable(settings.api_host)}:{api_port}"
    )
    health_ports = _start(supervisor, api_port=api_port, api_url=access.api_url)
    if not _wait_ready(supervisor, stop, health_port=health_ports["API"]):
        return
    file = folder / "environment"
    _write_private(file, _environment_file(settings, access))
    _welcome(settings, access, file, health_ports)
    supervisor.wait(stop)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder until the end of the block, or of this process; raises Unavailable."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unavailable("duebook dev runs in this folder already") from error
        yield


@contextmanager
def _database(project: Path) -> Iterator[Mapping[str, Child]]:
    """Name a database in the environment: the one given, else our own; yield what runs for it."""
    if is_given(os.environ):
        os.environ.pop(_OUR_URL, None)
        yield {}
        return
    home = home_folder(project)
    _say(f"starting PostgreSQL, its data is in {home}")
    server = start_postgres(home)
    try:
        password = secrets.token_urlsafe(24)
        with connect(server.url("postgres"), application_name="duebook-dev") as admin:
            ensure_role(admin, role=_ROLE, password=password)
            ensure_database(admin, database=_DATABASE, owner=_ROLE)
        url = server.url(_DATABASE, role=_ROLE, password=password)
        os.environ["DATABASE_URL"] = os.environ[_OUR_URL] = url
        yield {"PostgreSQL": server.child}
    finally:
        server.stop()


def is_given(environment: Mapping[str, str]) -> bool:
    """Tell whether somebody chose a database; what an ``.run/environment`` tells is no choice."""
    url = environment.get("DATABASE_URL")
    is_ours = url == environment.get(_OUR_URL)
    return bool(environment.get("DATABASE_URL_FILE") or (url and not is_ours))


def _prepare(settings: Settings, folder: Path, *, api_url: str) -> _Access:
    """Make the sample workspace on the first run, and have a token that stays the same."""
    kept = folder / "token"
    known = kept.read_text().strip() if kept.exists() else ""
    with connect(settings.database_url.reveal(), application_name="duebook-dev") as conn:
        now = server_now(conn)
        tenant, is_new = ensure_sample_workspace(conn, sealer=settings.sealer(), now=now)
        token = ensure_token(conn, tenant, known=known, now=now)
    _write_private(kept, f"{token}\n")
    return _Access(api_url=api_url, token=token, is_new=is_new)


def _start(supervisor: Supervisor, *, api_port: int, api_url: str) -> dict[str, int]:
    """Start the services and return the port on which each tells its health."""
    environment = {
        "LOG_FORMAT": "console",
        "LOG_LEVEL": "DEBUG",  # tells of each run that has ended
        "ADMIN_TOKEN": secrets.token_urlsafe(32),
        "PUBLIC_URL": api_url,
    }
    environment |= {key: value for key, value in os.environ.items() if value}
    health_ports = {name: free_port() for name in ("API", "scanner", "worker")}
    supervisor.start(
        "the API",
        ["gunicorn", "-c", _GUNICORN, "services.api.wsgi:app"],
        environment={
            **environment,
            "API_PORT": str(api_port),
            "HEALTH_PORT": str(health_ports["API"]),
        },
    )
    for service in ("scanner", "worker"):
        supervisor.start(
            f"the {service}",
            [f"services.{service}"],
            environment={**environment, "HEALTH_PORT": str(health_ports[service])},
        )
    return health_ports


def _wait_ready(supervisor: Supervisor, stop: Stop, *, health_port: int) -> bool:
    """Wait until the API answers; False when it was stopped before. Raises Ended, Unavailable."""

    def settled() -> bool:
        supervisor.check()
        return stop.requested or _is_ready(health_port)

    if not wait_until(settled, seconds=_READY_SECONDS):
        raise Unavailable(f"the API was not ready within {_READY_SECONDS:.0f} s")
    return not stop.requested


def _is_ready(health_port: int) -> bool:
    url = f"http://127.0.0.1:{health_port}/readyz"
    try:
        return urllib3.request("GET", url, retries=False, timeout=5.0).status == 200
    except HTTPError:
        return False


def first_free_port(port: int, *, host: str) -> int:
    """Return ``port``, or the first above it on which nobody listens. Raises Unavailable."""
    for candidate in range(port, min(port + _PORT_TRIES, 65536)):
        with socket.socket() as probe:
            # As gunicorn binds: a port that was in use a moment ago is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise Unavailable(f"port {candidate} of {host}: {error.strerror}") from error
        return candidate
    raise Unavailable(f"no port from {port} on is free")


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def _environment_file(settings: Settings, access: _Access) -> str:
    values = {
        "DATABASE_URL": settings.database_url.reveal(),
        "DUEBOOK_API": access.api_url,
        "DUEBOOK_TOKEN": access.token,
    }
    if settings.amqp_url is not None:
        values["AMQP_URL"] = settings.amqp_url.reveal()
    if settings.redis_url is not None:
        values["REDIS_URL"] = settings.redis_url.reveal()
    if settings.encryption_keys:
        values["ENCRYPTION_KEYS"] = ",".join(key.reveal() for key in settings.encryption_keys)
    if _OUR_URL in os.environ:
        values[_OUR_URL] = os.environ[_OUR_URL]
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def _welcome(
    settings: Settings, access: _Access, file: Path, health_ports: Mapping[str, int]
) -> None:
    sample = "is new: all its triggers come due within a minute" if access.is_new else "goes on"
    transport = "PostgreSQL"
    if settings.amqp_url is not None:
        transport = "RabbitMQ; while it is away, what is due waits for it"
    metrics = ", ".join(f"{port} ({name})" for name, port in health_ports.items())
    relative = os.path.relpath(file)
    click.echo(
        f"""
  Duebook is up. The sample workspace {sample}.

  API         {access.api_url}
  Reference   {access.api_url}/docs
  Token       {access.token}  (moderator)
  Transport   {transport}
  Metrics     /metrics on ports {metrics}

  In another terminal:

    . {relative}
    .venv/bin/duebook runs                  what fired, and what came of it
    .venv/bin/duebook preview machines      what the next tick would do, and why
    .venv/bin/duebook actions               what waits for its time, or for a click
    .venv/bin/duebook doctor                how the installation is

  Ctrl-C ends it; the data stays.
"""
    )


def _say(text: str) -> None:
    click.echo(f"duebook dev: {text}", err=True)
