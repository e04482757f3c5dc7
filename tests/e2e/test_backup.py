"""docs/backup.md: a dump that is taken while work flows comes to its end on another server."""

import os
import re
import signal
import threading
from contextlib import contextmanager

import pytest
from psycopg.sql import SQL, Identifier

from shared.db.connection import connect
from shared.lifecycle import wait_until
from tests.e2e.installation import SECONDS, Workspace
from tests.e2e.pages import PASSWORD, Operator
from tests.e2e.work_of_every_kind import Work
from tests.integration.actions.receivers import Receiver, a_receiver
from tests.servers.postgres import bare_postgres

_SERVICES = ("api", "scanner", "worker", "worker")
_LOGINS = {"api": "main_2", "scanner": "cron_scheduler_2", "worker": "trigger_worker_2"}
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_HELD = "SELECT count(*) FROM trigger_run WHERE table_id = %s AND status = 'running'"
_LOSSES = "SELECT worker_losses FROM trigger_run WHERE table_id = %s"
_PENDING = "SELECT count(*) FROM trigger_run WHERE status = 'pending'"
_FAILED = "SELECT error, count(*) FROM trigger_run WHERE status = 'failed' GROUP BY 1"
_CONSUMED = "SELECT count(*) FROM occurrence WHERE NOT by_run"
_IS_ANNOUNCED = """
SELECT EXISTS (SELECT FROM trigger_run WHERE status = 'pending' AND announcements > 0)
"""


@pytest.fixture(scope="module")
def servers():
    """Two servers that have nothing yet: the one that is lost, and the one that comes after it."""
    with bare_postgres() as before, bare_postgres() as after:
        yield before, after


@pytest.fixture
def slow():
    """A receiver that answers nobody before it is let go."""
    with a_receiver(receiver=Receiver(let_go=threading.Event())) as running:
        yield running


@pytest.fixture
def operator(tmp_path):
    """Makes somebody who looks after a server, and follows the page there."""

    def make(server):
        return Operator(
            "backup.md",
            folder=tmp_path,
            ADMIN_URL=server.url("postgres"),
            DATABASE_URL=_url(server, "duebook"),
            BACKUP_URL=_url(server, "duebook_backup"),
            CHECK_URL=server.url("duebook_check", role="duebook", password=PASSWORD),
        )

    return make


@pytest.fixture
def install(install_over, receiver, slow):
    """Makes an installation that may call both receivers."""
    ports = f"{receiver.port},{slow.port}"
    return lambda *database, **settings: install_over(*database, ALLOWED_PORTS=ports, **settings)


@contextmanager
def a_server_with_roles(operator, server):
    """An operator at a server that has an empty database of an installation, for the block."""
    here = operator(server)
    here.follow("Restore a dump")
    try:
        yield here
    finally:
        with connect(server.url("postgres"), application_name="test") as admin:
            for database in ("duebook", "duebook_check"):
                admin.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            roles = ("duebook", "duebook_api", "duebook_scanner", "duebook_worker")
            for role in (*roles, *_LOGINS.values()):
                admin.execute(f"DROP ROLE {role}")
            admin.execute("DROP ROLE IF EXISTS duebook_backup")


@pytest.fixture
def before(operator, servers):
    """The operator of the installation that is lost, who has made the backup's login."""
    with a_server_with_roles(operator, servers[0]) as here:
        here.follow("A dump", 0)
        here.run("duebook migrate")
        yield here


@pytest.fixture
def after(operator, servers):
    """The operator of the server onto which it is restored."""
    with a_server_with_roles(operator, servers[1]) as here:
        yield here


def _start(installation, *services, logins=None):
    """Start services, each with a login of its own where there are such."""
    started = []
    for service in services:
        own = {} if logins is None else {"DATABASE_URL": logins(_LOGINS[service])}
        started.append(installation.start(service, **own))
    if "api" in services:
        installation.wait(installation.answers)
    return started


def _url(server, role):
    return server.url("duebook", role=role, password=PASSWORD)


def _restore(here):
    here.follow("Restore a dump", 1)
    return here.follow("Restore a dump", 2)


def _leave_messages(work, workers, conn, *, has_broker):
    """Make work of which the workers take no notice any more; a broker has references to it."""
    for worker in workers:
        os.kill(worker.pid, signal.SIGSTOP)
    for _ in range(10):
        work.send()
    if has_broker:
        assert wait_until(lambda: conn.execute(_IS_ANNOUNCED).fetchone()[0], seconds=SECONDS)


def _depth(installation):
    """How many messages the broker has for this installation."""
    checks = {check["name"]: check["found"] for check in installation.told("doctor")["checks"]}
    return sum(map(int, re.findall(r" (\d+)", checks["broker"])))


def test_a_dump_taken_while_work_flows_comes_to_its_end_elsewhere(
    install, amqp_url, redis_url, before, after, servers, receiver, slow
):
    old = install(before.environment["DATABASE_URL"], amqp_url, REDIS_URL=redis_url)
    _, _, *workers = _start(old, *_SERVICES)
    workspace = Workspace(old)
    work = Work(workspace, receiver, slow)
    with connect(before.environment["DATABASE_URL"], application_name="test") as conn:
        with work.flowing():
            old.wait(lambda: len(receiver.requests) > 40)
            work.hold()
            before.follow("A dump", 1)
            told = len(receiver.requests)
            old.wait(lambda: len(receiver.requests) > told + 60)
        _leave_messages(work, workers, conn, has_broker=amqp_url is not None)
    old.stop()
    lost = len(receiver.requests)
    slow.let_go.set()

    verified = _restore(after)

    assert "every invariant holds" in verified
    new = install(after.environment["DATABASE_URL"], amqp_url, REDIS_URL=redis_url)
    new.environment["DUEBOOK_TOKEN"] = old.environment["DUEBOOK_TOKEN"]
    assert (_depth(new) > 0) == (amqp_url is not None)
    with connect(new.environment["DATABASE_URL"], application_name="test") as conn:
        held = work.tables["held"]
        assert conn.execute(_HELD, [held]).fetchone() == (1,)
        _start(new, *_SERVICES, logins=lambda role: _url(servers[1], role))
        workspace.move_to(new)
        work.bring_to_its_end(new, conn)

        work.assert_exact(conn)
        assert conn.execute(_LOSSES, [held]).fetchone() == (1,)
        # What fired behind the dump was sent again, under the key that the receiver knew.
        known = work.keys_of(receiver.requests[:lost])
        again = work.keys_of(receiver.requests[lost:])
        assert {name for name in again if name in known}
        assert all(again[name] == known[name] for name in again if name in known)
        assert new.verify()["ok"]

        work.send()
        work.bring_to_its_end(new, conn)
        work.assert_exact(conn)
        assert workspace.call("GET", "/v1/events")["items"][0]["id"] > 1_000_000


def _counts(server):
    """How many rows each table has, for whom no policy hides one."""
    with connect(server.url("duebook"), application_name="test") as admin:
        names = [name for (name,) in admin.execute(_TABLES)]
        count = SQL("SELECT count(*) FROM {}")
        return {name: admin.execute(count.format(Identifier(name))).fetchone() for name in names}


def _busy(install, here, receiver, slow):
    """An installation that has done some work, and the work, some of which is open."""
    installation = install(here.environment["DATABASE_URL"])
    _start(installation, *_SERVICES)
    work = Work(Workspace(installation), receiver, slow)
    for _ in range(10):
        work.send()
    installation.wait(lambda: len(receiver.requests) == 40)
    installation.stop()
    return installation, work


def test_the_owners_dump_has_every_row_too(install, before, after, servers, receiver, slow):
    _busy(install, before, receiver, slow)

    before.follow("A dump", 2)

    assert "every invariant holds" in _restore(after)
    assert _counts(servers[1]) == _counts(servers[0])
    assert _counts(servers[1])["record"] == (20,)


def test_a_backup_is_checked_in_a_database_of_its_own(install, before, receiver, slow):
    _busy(install, before, receiver, slow)

    before.follow("A dump", 1)
    assert "every invariant holds" in before.follow("Check the backup")

    with connect(before.environment["DATABASE_URL"], application_name="test") as conn:
        conn.execute("DELETE FROM occurrence")
    before.follow("A dump", 1)
    for _ in range(2):
        with pytest.raises(AssertionError, match="broken by"):
            before.follow("Check the backup")


@pytest.fixture
def waiting(install, before, after, receiver, slow):
    """A restored installation, its API alone at work; orders and events wait to be acted upon."""
    old = install(before.environment["DATABASE_URL"])
    _start(old, "api")
    workspace = Workspace(old)
    work = Work(workspace, receiver, slow)
    for _ in range(3):
        work.send()
    before.follow("A dump", 1)
    old.stop()
    _restore(after)
    new = install(after.environment["DATABASE_URL"])
    _start(new, "api")
    workspace.move_to(new)
    after.environment |= {
        "DUEBOOK_API": new.api_url,
        "DUEBOOK_TOKEN": old.environment["DUEBOOK_TOKEN"],
        "TABLE": work.tables["orders"],
    }
    return new, work


def _told_of(work, receiver):
    """What the receiver was told of: the first word of each call."""
    return {name.split()[0] for name in work.keys_of(receiver.requests)}


def test_what_is_not_to_be_done_again_is_cancelled_before_a_worker_starts(waiting, after, receiver):
    installation, work = waiting
    with connect(after.environment["DATABASE_URL"], application_name="test") as conn:
        _start(installation, "scanner")
        installation.wait(lambda: conn.execute(_PENDING).fetchone() == (6,))

        after.follow("Start again", 0)

        _start(installation, "worker")
        work.bring_to_its_end(installation, conn)
        assert _told_of(work, receiver) == {"paid", "step"}
        assert conn.execute(_FAILED).fetchall() == [("cancelled", 6)]
        assert installation.verify()["ok"]


def test_a_trigger_may_consume_what_is_overdue_before_the_scanner_starts(waiting, after, receiver):
    installation, work = waiting

    after.follow("Start again", 1)

    with connect(after.environment["DATABASE_URL"], application_name="test") as conn:
        _start(installation, "scanner", "worker")
        installation.wait(lambda: conn.execute(_CONSUMED).fetchone() == (3,))
        work.bring_to_its_end(installation, conn)
        assert _told_of(work, receiver) == {"created", "paid", "step"}
        assert installation.verify()["ok"]
