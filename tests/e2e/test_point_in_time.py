"""docs/backup.md: a server with its log archived comes back as it was at a moment."""

import os
import pwd
from contextlib import contextmanager

import pytest

from services.cli.embedded_postgres import start_postgres
from shared.db.connection import connect
from tests.e2e.installation import Workspace
from tests.e2e.pages import PASSWORD, Operator
from tests.e2e.work_of_every_kind import Work
from tests.integration.worker.processes import a_held_receiver
from tests.servers.temporary import temporary_folder

_NOW = "SELECT clock_timestamp()::text"
_SWITCH = "SELECT pg_walfile_name(pg_switch_wal())"
_IS_ARCHIVED = "SELECT last_archived_wal >= %s FROM pg_stat_archiver"
_ORDERS = "SELECT count(*) FROM record WHERE table_id = %s"


@pytest.fixture
def folder():
    """A folder for data and archive, in which a server may write that is not ours."""
    with temporary_folder("point-in-time") as folder:
        (folder / "archive").mkdir()
        (folder / "archive").chmod(0o777)
        yield folder


def _settings_of_the_page(operator, archive):
    """The lines for postgresql.conf, as arguments of the server."""
    [lines] = operator.blocks("Physically, to any moment", language="")
    settings = [line.replace(" = ", "=", 1).replace("'", "") for line in lines.splitlines()]
    return [part.replace("/archive", str(archive)) for one in settings for part in ("-c", one)]


@contextmanager
def _running(home, *options):
    server = start_postgres(home, options=options)
    try:
        yield server
    finally:
        server.child.kill()


def _hand_over(home, password):
    """Let a home made of a base backup belong to whom the server runs as."""
    (home / "password").write_text(password)
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        for path in (home, *home.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _urls(server):
    return {
        "ADMIN_URL": server.url("postgres"),
        "DATABASE_URL": server.url("duebook", role="duebook", password=PASSWORD),
    }


@pytest.fixture
def slow():
    """A receiver that answers nobody before it is let go."""
    with a_held_receiver() as running:
        yield running


@pytest.fixture
def install(install_over, receiver, slow):
    """Makes an installation at work over the database of an operator."""

    def make(operator):
        installation = install_over(
            operator.environment["DATABASE_URL"], ALLOWED_PORTS=f"{receiver.port},{slow.port}"
        )
        for service in ("api", "scanner", "worker"):
            installation.start(service)
        installation.wait(installation.answers)
        return installation

    return make


def test_what_came_behind_the_moment_is_as_if_it_had_never_been(
    folder, tmp_path, install, receiver, slow
):
    operator = Operator("backup.md", folder=tmp_path, ARCHIVE=str(folder / "archive"))
    options = _settings_of_the_page(operator, folder / "archive")
    with _running(folder / "lost", *options) as server:
        operator.environment |= _urls(server) | {"BASE": str(folder / "after/data")}
        operator.follow("Restore a dump")
        operator.run("duebook migrate")
        installation = install(operator)
        work = Work(Workspace(installation), receiver, slow)
        with connect(server.url("duebook"), application_name="test") as conn:
            with work.flowing():
                operator.follow("Physically, to any moment")
                count = len(receiver.requests)
                installation.wait(lambda: len(receiver.requests) > count + 20)
                work.hold()
            (moment,) = conn.execute(_NOW).fetchone()
            (orders,) = conn.execute(_ORDERS, [work.tables["orders"]]).fetchone()
            slow.let_go.set()
            for _ in range(3):
                work.send()
            work.bring_to_its_end(installation, conn)
            work.assert_exact(conn)
            (segment,) = conn.execute(_SWITCH).fetchone()
            installation.wait(lambda: conn.execute(_IS_ARCHIVED, [segment]).fetchone()[0])
        installation.stop()
        password = server.password
    told = len(receiver.requests)

    operator.environment["MOMENT"] = moment
    operator.follow("Physically, to any moment", 1)
    _hand_over(folder / "after", password)
    with _running(folder / "after", *options) as server:
        operator.environment |= _urls(server)
        with connect(server.url("duebook"), application_name="test") as conn:
            installation.wait(lambda: conn.execute("SELECT NOT pg_is_in_recovery()").fetchone()[0])
            assert "every invariant holds" in operator.follow("Physically, to any moment", 2)
            assert conn.execute(_ORDERS, [work.tables["orders"]]).fetchone() == (orders,)
            after = install(operator)
            work.move_to(after)
            work.bring_to_its_end(after, conn)
            work.assert_exact(conn)
            assert len(receiver.requests) > told
            held, again = slow.requests
            assert held.headers["idempotency-key"] == again.headers["idempotency-key"]
