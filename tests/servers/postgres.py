"""One PostgreSQL server for a test session: temporary, in memory where there is room."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.sql import SQL, Identifier, Literal

from services.cli.embedded_postgres import PostgresServer, start_postgres
from shared.db.connection import connect

# The product's role is not a superuser: what only a superuser may do fails in tests as well.
ROLE = "duebook"
_ROOM = 1_000_000_000

_OPTIONS = (
    *("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"),
    *("-c", "max_connections=300"),
)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server for the block, with the role ``duebook`` (same password as the admin)."""
    with temporary_folder("postgres") as folder:
        server = start_postgres(folder / "home", options=_OPTIONS, temporary=True)
        try:
            with connect(server.url("postgres"), application_name="tests") as admin:
                create = SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                admin.execute(create.format(Identifier(ROLE), Literal(server.password)))
            yield server
        finally:
            server.stop()


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Make a folder in memory, or on disk when memory is short; other users may pass through."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM
    name = tempfile.mkdtemp(prefix=f"duebook-{purpose}-", dir=memory if roomy else None)
    folder = Path(name)
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
