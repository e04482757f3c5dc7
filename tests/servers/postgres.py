"""One PostgreSQL server for a test session: temporary, in memory where there is room."""

from collections.abc import Iterator
from contextlib import contextmanager

from services.cli.embedded_postgres import PostgresServer, start_postgres
from shared.db.connection import connect
from shared.db.provision import ensure_login, ensure_role
from shared.db.roles import API, SCANNER, WORKER
from tests.servers.temporary import temporary_folder

# The product's role is not a superuser: what only a superuser may do fails in tests as well.
ROLE = "duebook"
# A login for each service alone, as a large installation has them.
LOGINS = {API: "api_1", SCANNER: "scanner_1", WORKER: "worker_1"}

_OPTIONS = (
    *("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"),
    *("-c", "max_connections=300"),
)


@contextmanager
def bare_postgres(*options: str) -> Iterator[PostgresServer]:
    """Run a server for the block that has nothing but its admin, as one that was just installed."""
    with temporary_folder("bare-postgres") as folder:
        server = start_postgres(folder / "home", options=(*_OPTIONS, *options), temporary=True)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server for the block, with the role ``duebook`` and a login for each service.

    All have the admin's password.
    """
    with temporary_folder("postgres") as folder:
        server = start_postgres(folder / "home", options=_OPTIONS, temporary=True)
        try:
            with connect(server.url("postgres"), application_name="tests") as admin:
                # Thousands of tests log in: a password need not be hard to guess. 16 is the first
                # release in which it may be easy.
                if admin.info.server_version >= 160_000:
                    admin.execute("SET scram_iterations = 1")
                ensure_role(admin, role=ROLE, password=server.password)
                for service, login in LOGINS.items():
                    ensure_login(admin, login=login, password=server.password, service=service)
            yield server
        finally:
            server.stop()
