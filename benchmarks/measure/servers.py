"""The servers of a benchmark: a PostgreSQL of its own with every migration, and a broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import Connection

from services.cli.embedded_postgres import PostgresServer, start_postgres
from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database, ensure_role
from tests.servers.postgres import ROLE
from tests.servers.temporary import temporary_folder

_ROOM = 8_000_000_000

# A server as a small installation would set it up, with its promises on: it waits for its log. The
# checkpoints are far apart, so that they fall between measurements.
_OPTIONS = (
    *("-c", "shared_buffers=1GB", "-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=30min"),
    *("-c", "max_connections=200", "-c", "autovacuum_naptime=10s"),
)
_STATEMENTS = (
    *("-c", "shared_preload_libraries=pg_stat_statements"),
    *("-c", "pg_stat_statements.track=all"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A migrated database on a server that is there for this benchmark alone."""

    server: PostgresServer
    name: str
    conn: Connection

    @property
    def url(self) -> str:
        """The product's connection URL."""
        return self.server.url(self.name, role=ROLE)

    @property
    def pid(self) -> int:
        """The process that started all others of the server."""
        return self.server.child.pid

    def connect(self) -> Connection:
        """Open a further session, without limits on time."""
        return connect(self.url, application_name="bench", statement_seconds=0)

    def admin(self) -> Connection:
        """Open a session of the superuser."""
        return connect(self.server.url(self.name), application_name="bench", statement_seconds=0)

    def settle(self) -> None:
        """Collect garbage and statistics, and write a checkpoint, so that neither comes later."""
        with self.admin() as admin:
            admin.execute("VACUUM ANALYZE")
            admin.execute("CHECKPOINT")


@contextmanager
def running_database(*, count_statements: bool = False) -> Iterator[Database]:
    """Run a server for the block, in memory where there is room, and open a session.

    ``count_statements`` loads pg_stat_statements, which costs a few per cent.
    """
    with temporary_folder("bench", room=_ROOM) as folder:
        options = _OPTIONS + _STATEMENTS if count_statements else _OPTIONS
        server = start_postgres(folder / "home", options=options, temporary=True)
        try:
            with connect(server.url("postgres"), application_name="bench") as admin:
                ensure_role(admin, role=ROLE, password=server.password)
            with another_database(server, "bench") as database:
                yield database
        finally:
            server.stop()


@contextmanager
def another_database(server: PostgresServer, name: str) -> Iterator[Database]:
    """Make and migrate a database on a running server, and open a session for the block."""
    with connect(server.url("postgres"), application_name="bench") as admin:
        ensure_database(admin, database=name, owner=ROLE)
    url = server.url(name, role=ROLE)
    migrate(url)
    with connect(url, application_name="bench", statement_seconds=0) as conn:
        yield Database(server=server, name=name, conn=conn)
