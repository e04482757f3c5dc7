"""Apply ``migrations/NNNN_what_it_does.sql`` in order, each once, from several processes at once.

A file and its row in ``schema_migration`` are one transaction. A file whose first line is
``-- no-transaction`` is sent statement by statement, split at lines ``-- next``; each of its
statements can be repeated (``IF NOT EXISTS``), since it may be interrupted between any two.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from psycopg import Connection, errors
from psycopg.sql import SQL, Identifier

from shared.db.clock import server_now
from shared.db.connection import connect
from shared.errors import Conflict, Unavailable
from shared.lifecycle import wait_until

NEEDED_ENCODING = "UTF8"

_LOCK = 7_280_001
_LOCK_SECONDS = 5
_LOCK_TRIES = 5
_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.2

_FILE_NAME = re.compile(r"[0-9]{4}_[a-z0-9_]+\.sql")
_NO_TRANSACTION = "-- no-transaction\n"
_NEXT = re.compile(r"^-- next$", re.MULTILINE)
_CONCURRENT_INDEX = re.compile(
    r"\bCREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS ([a-z0-9_]+)", re.IGNORECASE
)

_CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migration (
    name       text PRIMARY KEY,
    checksum   bytea NOT NULL CHECK (length(checksum) = 32),
    applied_at timestamptz NOT NULL
)
"""
_HAS_TABLE = "SELECT to_regclass('schema_migration') IS NOT NULL"
_APPLIED = "SELECT name, checksum FROM schema_migration ORDER BY name"
_RECORD = "INSERT INTO schema_migration (name, checksum, applied_at) VALUES (%s, %s, %s)"
_INVALID_INDEX = """
SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file of ``migrations/``; its lines end in a line feed, whatever the checkout has."""

    name: str
    text: str

    @property
    def checksum(self) -> bytes:
        """Return the sha256 of the text."""
        return sha256(self.text.encode()).digest()


def known_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this release, in the order in which they are applied."""
    found = [entry for entry in files("migrations").iterdir() if entry.name.endswith(".sql")]
    for entry in found:
        if not _FILE_NAME.fullmatch(entry.name):
            raise Conflict(
                f"migration {entry.name} is not named NNNN_what_it_does.sql",
                code="migration_misnamed",
            )
    return tuple(
        Migration(name=entry.name, text=entry.read_text("utf-8"))
        for entry in sorted(found, key=lambda entry: entry.name)
    )


def migrate(
    url: str,
    *,
    migrations: tuple[Migration, ...] | None = None,
    on_applied: Callable[[str], None] = lambda _name: None,
) -> list[str]:
    """Bring the database up to this release and return the names of what was applied now.

    ``on_applied`` is told each name as it is done. Raises Conflict when what the database has is
    not the beginning of what this release has: ``migration_changed``, ``migration_missing``,
    ``migration_out_of_order``; ``database_encoding`` when it cannot keep every text;
    ``migration_forbidden`` when the login may not do what a migration does; Unavailable
    ``migration_locked`` when another one holds the lock for ten minutes, or a table's lock cannot
    be had.
    """
    migrations = known_migrations() if migrations is None else migrations
    conn = connect(
        url,
        application_name="duebook-migrate",
        statement_seconds=0,
        lock_seconds=_LOCK_SECONDS,
    )
    with conn, _only_migrator(conn):
        _check_encoding(conn)
        _make_table(conn)
        todo = _not_applied(migrations, _applied(conn))
        for migration in todo:
            _apply_patiently(conn, migration)
            on_applied(migration.name)
    return [migration.name for migration in todo]


def pending(conn: Connection) -> list[str]:
    """Return the names of this release's migrations that the database lacks, in order.

    What a newer release has added is no fault: it is made so that this one bears it.
    """
    applied = _applied(conn) if _has_table(conn) else {}
    return [known.name for known in known_migrations() if known.name not in applied]


def of_newer_release(conn: Connection) -> list[str]:
    """Return the names of what was applied and this release lacks, in order."""
    known = {migration.name for migration in known_migrations()}
    return [name for name in _applied(conn) if name not in known] if _has_table(conn) else []


def encoding(conn: Connection) -> str:
    """Return how the database keeps its texts."""
    return conn.info.parameter_status("server_encoding") or "unknown"


def _check_encoding(conn: Connection) -> None:
    # Where initdb found no locale it chose SQL_ASCII, which refuses the first text beyond ASCII.
    found = encoding(conn)
    if found != NEEDED_ENCODING:
        raise Conflict(
            f"the database's encoding is {found}, {NEEDED_ENCODING} is needed:"
            " createdb -E UTF8 -T template0 makes one",
            code="database_encoding",
        )


@contextmanager
def _only_migrator(conn: Connection) -> Iterator[None]:
    # By polling: a blocking pg_advisory_lock holds a snapshot while it waits, and CREATE INDEX
    # CONCURRENTLY of the migrator that has the lock waits for that snapshot: a deadlock.
    def locked() -> bool:
        return conn.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchone() == (True,)

    if not wait_until(locked, seconds=_WAIT_SECONDS, every_seconds=_POLL_SECONDS):
        raise Unavailable("another migration is still running", code="migration_locked")
    yield
    conn.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def _make_table(conn: Connection) -> None:
    try:
        conn.execute(_CREATE_TABLE)
    except errors.InsufficientPrivilege as error:
        message = f"{error.diag.message_primary}: let the owner of the tables migrate"
        raise Conflict(message, code="migration_forbidden") from error


def _has_table(conn: Connection) -> bool:
    return conn.execute(_HAS_TABLE).fetchone() == (True,)


def _applied(conn: Connection) -> dict[str, bytes]:
    return {name: bytes(checksum) for name, checksum in conn.execute(_APPLIED)}


def _not_applied(
    migrations: tuple[Migration, ...], applied: Mapping[str, bytes]
) -> list[Migration]:
    by_name = {migration.name: migration for migration in migrations}
    for name, checksum in applied.items():
        if name not in by_name:
            raise Conflict(
                f"the database has migration {name}, which this release lacks",
                code="migration_missing",
            )
        if by_name[name].checksum != checksum:
            raise Conflict(
                f"migration {name} was changed after it was applied: an unreleased state made this "
                "database; make it anew",
                code="migration_changed",
            )
    todo = [migration for migration in migrations if migration.name not in applied]
    if todo and applied and todo[0].name < max(applied):
        raise Conflict(
            f"migration {todo[0].name} comes before {max(applied)}, which is applied already",
            code="migration_out_of_order",
        )
    return todo


def _apply_patiently(conn: Connection, migration: Migration) -> None:
    # A short lock limit and several tries: while a migration waits for a table, everybody else
    # queues behind it.
    for _ in range(_LOCK_TRIES):
        try:
            _apply(conn, migration)
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            continue
        except errors.InsufficientPrivilege as error:
            message = f"migration {migration.name}: {error.diag.message_primary}"
            raise Conflict(message, code="migration_forbidden") from error
        return
    raise Unavailable(
        f"migration {migration.name}: a table stays locked by another session",
        code="migration_locked",
    )


def _apply(conn: Connection, migration: Migration) -> None:
    if migration.text.startswith(_NO_TRANSACTION):
        for statement in _NEXT.split(migration.text):
            _drop_invalid_index(conn, statement)
            conn.execute(statement.encode())
        _record(conn, migration)
        return
    with conn.transaction():
        conn.execute(migration.text.encode())
        _record(conn, migration)


def _record(conn: Connection, migration: Migration) -> None:
    conn.execute(_RECORD, [migration.name, migration.checksum, server_now(conn)])


def _drop_invalid_index(conn: Connection, statement: str) -> None:
    # An interrupted CREATE INDEX CONCURRENTLY leaves an index that IF NOT EXISTS takes for done.
    for name in _CONCURRENT_INDEX.findall(statement):
        if conn.execute(_INVALID_INDEX, [name]).fetchone() is not None:
            conn.execute(SQL("DROP INDEX CONCURRENTLY {}").format(Identifier(name)))
