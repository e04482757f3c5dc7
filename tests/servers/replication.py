"""A PostgreSQL server and a standby that follows it, for tests in which the first one dies."""

import os
import pwd
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from services.cli.embedded_postgres import find_binaries, start_postgres
from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database, ensure_role
from shared.lifecycle import wait_until
from tests.servers.postgres import ROLE
from tests.servers.temporary import temporary_folder

_DATABASE = "failing_over"
# Processes die here, the machine does not: nothing need be on its disk.
_OPTIONS = ("-c", "fsync=off", "-c", "max_connections=200", "-c", "wal_keep_size=256MB")
_SECONDS = 60.0
_FOLLOWS = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
_HAS_REPLAYED = "SELECT replay_lsn >= %s::pg_lsn FROM pg_stat_replication"


class Pair:
    """A primary with a standby, and the URL by which libpq finds whichever of the two writes."""

    def __init__(self, folder):
        self.primary = start_postgres(folder / "a", options=_OPTIONS, temporary=True)
        with connect(self.primary.url("postgres"), application_name="tests") as admin:
            ensure_role(admin, role=ROLE, password=self.primary.password)
            ensure_database(admin, database=_DATABASE, owner=ROLE)
        migrate(self.primary.url(_DATABASE, role=ROLE))
        _copy(folder / "a", folder / "b", self.primary)
        self.standby = start_postgres(folder / "b", options=_OPTIONS, temporary=True)
        self.url = (
            f"postgresql://{ROLE}:{self.primary.password}"
            f"@127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
            f"/{_DATABASE}?target_session_attrs=read-write"
        )
        self._wait_for("async")

    def confirm_on_the_standby(self):
        """Have no commit answered that the standby has not."""
        self._change(self.primary, "synchronous_standby_names", "*")
        self._wait_for("sync")

    def cut(self):
        """Let the standby hear no more: it has what is committed, and lacks what comes now."""
        with self._admin(self.primary) as admin:
            (end,) = admin.execute("SELECT pg_current_wal_lsn()").fetchone()
            assert wait_until(
                lambda: admin.execute(_HAS_REPLAYED, [end]).fetchone() == (True,), seconds=_SECONDS
            )
        self._change(self.standby, "primary_conninfo", "")
        with self._admin(self.primary) as admin:
            assert wait_until(
                lambda: admin.execute("SELECT FROM pg_stat_replication").fetchone() is None,
                seconds=_SECONDS,
            )

    def kill_primary(self):
        """End every process of it at once, as a power cut would."""
        processes = [self.primary.child.pid, *_children(self.primary.child.pid)]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.primary.child.kill()

    def promote(self):
        """Make the standby a primary; it answers when that is done."""
        with self._admin(self.standby) as admin:
            assert admin.execute("SELECT pg_promote(true, 60)").fetchone() == (True,)

    def execute(self, statement, parameters=()):
        """Execute a statement on whichever writes, once one does, and return the cursor."""
        made = []

        def ask():
            with suppress(psycopg.OperationalError):
                made.append(connect(self.url, application_name="test"))
            return bool(made)

        assert wait_until(ask, seconds=_SECONDS)
        with made[0]:
            return made[0].execute(statement, parameters)

    def stop(self):
        """End both."""
        self.primary.child.kill()
        if hasattr(self, "standby"):
            self.standby.child.kill()

    def _admin(self, server):
        return connect(server.url("postgres"), application_name="tests")

    def _change(self, server, name, value):
        with self._admin(server) as admin:
            admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            admin.execute("SELECT pg_reload_conf()")

    def _wait_for(self, state):
        with self._admin(self.primary) as admin:
            assert wait_until(
                lambda: admin.execute(_FOLLOWS).fetchall() == [(state,)], seconds=_SECONDS
            )


def _copy(home: Path, copy: Path, server) -> None:
    """Copy a running server's data, so that the copy follows it."""
    copy.mkdir()
    (copy / "data").mkdir(mode=0o700)
    owner = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        for folder in (copy, copy / "data"):
            os.chown(folder, user.pw_uid, user.pw_gid)
    shutil.copy(home / "password", copy / "password")
    source = make_conninfo(server.url("postgres"), application_name="standby")
    subprocess.run(
        [
            *(find_binaries() / "pg_basebackup", "-D", copy / "data", "-d", source),
            *("-R", "-X", "stream", "-c", "fast", "--no-sync"),
        ],
        check=True,
        capture_output=True,
        env={"LC_ALL": "C", "HOME": str(copy), "PATH": os.environ.get("PATH", os.defpath)},
        **owner,
    )


def _children(parent):
    """The processes that a process has started and that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the name, which may hold blanks: state, parent.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


@contextmanager
def running_pair():
    """Run a pair for the block."""
    with temporary_folder("pair") as folder:
        pair = None
        try:
            pair = Pair(folder)
            yield pair
        finally:
            if pair is not None:
                pair.stop()
