"""docs/upgrade.md: a newer database under the release before, and a newer PostgreSQL."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.cli.embedded_postgres import find_binaries, start_postgres
from shared.db.connection import connect
from tests.e2e.installation import ROOT, Workspace
from tests.e2e.pages import PASSWORD, Operator
from tests.e2e.work_of_every_kind import Work
from tests.servers.postgres import bare_postgres
from tests.servers.temporary import temporary_folder

_OLDEST = Path(os.environ.get("OLDEST_PG_BINDIR", "/usr/lib/postgresql/15/bin"))
_NEWER = "9999_of_a_newer_release.sql"
_SERVICES = ("api", "scanner", "worker")


@pytest.fixture
def newer_release(tmp_path):
    """A copy of the tree that has one migration more."""
    folder = tmp_path / "newer"
    for part in ("services", "shared", "migrations"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "migrations" / _NEWER).write_text(
        "ALTER TABLE trigger_run ADD COLUMN of_a_newer_release text;\n"
        "CREATE TABLE of_a_newer_release (id int);\n"
    )
    return folder


def _start(installation, *services):
    for service in services:
        installation.start(service)
    installation.wait(installation.answers)


def test_a_release_works_on_the_tables_of_a_newer_one(
    install_over, database_url, newer_release, receiver, tmp_path
):
    installation = install_over(database_url)
    newer = Operator("upgrade.md", folder=tmp_path, DATABASE_URL=database_url)
    newer.environment |= {"PYTHONPATH": str(newer_release), "PYTHONSAFEPATH": "1"}
    command = "from services.cli.main import main; main()"
    newer.run(f"exec '{sys.executable}' -c '{command}' migrate")

    _start(installation, *_SERVICES)
    work = Work(Workspace(installation), receiver, receiver)
    for _ in range(5):
        work.send()

    with connect(database_url, application_name="test") as conn:
        work.bring_to_its_end(installation, conn)
        work.assert_exact(conn)
    checks = {check["name"]: check for check in installation.verify()["checks"]}
    told = "all of this release are applied; of a newer one: 9999_of_a_newer_release.sql"
    assert (checks["migrations"]["state"], checks["migrations"]["found"]) == ("ok", told)
    refused = installation.duebook("migrate")
    assert refused.returncode == 1
    assert f"the database has migration {_NEWER}, which this release lacks" in refused.stderr


@pytest.fixture
def folder():
    with temporary_folder("upgrade") as folder:
        yield folder


@pytest.fixture
def oldest():
    """The programs of the oldest PostgreSQL that we support."""
    assert (_OLDEST / "initdb").exists(), "install PostgreSQL 15, or name OLDEST_PG_BINDIR"
    return _OLDEST


@contextmanager
def _running(home, binaries, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PG_BINDIR", str(binaries))
        server = start_postgres(home)
    try:
        yield server
    finally:
        server.stop()


def _urls(server):
    return {
        "ADMIN_URL": server.url("postgres"),
        "DATABASE_URL": server.url("duebook", role="duebook", password=PASSWORD),
        "BACKUP_URL": server.url("duebook", role="duebook_backup", password=PASSWORD),
    }


def _as_owner_of(folder):
    """Whom PostgreSQL's programs run as: never root."""
    if os.geteuid() != 0:
        return {}
    found = folder.stat()
    return {"user": found.st_uid, "group": found.st_gid, "extra_groups": []}


def _with_work(install_over, server, operator, receiver):
    """An installation of which an API alone has run: nothing that was asked for is done."""
    operator.environment |= _urls(server)
    operator.follow("Restore a dump")
    operator.run("duebook migrate")
    installation = install_over(operator.environment["DATABASE_URL"])
    _start(installation, "api")
    workspace = Workspace(installation)
    work = Work(workspace, receiver, receiver)
    for _ in range(5):
        work.send()
    return installation, work


def _goes_on(install_over, server, work):
    """Everything comes to its end on the newer server."""
    installation = install_over(_urls(server)["DATABASE_URL"])
    _start(installation, *_SERVICES)
    work.move_to(installation)
    with connect(_urls(server)["DATABASE_URL"], application_name="test") as conn:
        work.bring_to_its_end(installation, conn)
        work.assert_exact(conn)
    assert installation.verify()["ok"]


def test_a_dump_of_the_oldest_postgresql_goes_on_with_a_newer_one(
    install_over, folder, oldest, monkeypatch, tmp_path, receiver
):
    operator = Operator("backup.md", folder=tmp_path)
    with _running(folder / "old", oldest, monkeypatch) as server:
        installation, work = _with_work(install_over, server, operator, receiver)
        operator.follow("A dump", 0)
        operator.follow("A dump", 1)
        installation.stop()

    with bare_postgres() as server:
        operator.environment |= _urls(server)
        operator.follow("Restore a dump", 0)
        operator.follow("Restore a dump", 1)
        operator.follow("Restore a dump", 2)
        _goes_on(install_over, server, work)


def test_the_oldest_postgresql_is_upgraded_in_place(
    install_over, folder, oldest, monkeypatch, tmp_path, receiver
):
    operator = Operator("backup.md", folder=tmp_path)
    home, password = folder / "old", None
    with _running(home, oldest, monkeypatch) as server:
        installation, work = _with_work(install_over, server, operator, receiver)
        installation.stop()
        password = server.password

    new = folder / "new"
    new.mkdir()
    (new / "password").write_text(password)
    owner = _as_owner_of(home / "data")
    for path in (new, new / "password"):
        os.chown(path, *([owner["user"], owner["group"]] if owner else [-1, -1]))
    upgrading = Operator("upgrade.md", folder=new, PGPASSWORD=password)
    upgrading.environment |= {
        "OLD": str(home / "data"),
        "NEW": str(new / "data"),
        "OLD_BIN": str(oldest),
        "NEW_BIN": str(find_binaries()),
        "CHECKSUMS": f"--pwfile={new}/password -A scram-sha-256 --no-data-checksums",
    }
    upgrading.follow("PostgreSQL", 0, **owner)

    with _running(new, find_binaries(), monkeypatch) as server:
        upgrading.environment |= _urls(server)
        assert "every invariant holds" in upgrading.follow("PostgreSQL", 1)
        _goes_on(install_over, server, work)
