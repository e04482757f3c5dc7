import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from shared.db.connection import connect
from shared.db.migrate import Migration, known_migrations, migrate, of_newer_release, pending
from shared.errors import Conflict, Unavailable
from shared.lifecycle import wait_until
from tests.servers.postgres import ROLE

_FIRST = Migration(name="0001_first.sql", text="CREATE TABLE first (id int);\n")
_SECOND = Migration(name="0002_second.sql", text="CREATE TABLE second (id int);\nSELECT 1;\n")
_INDEX = Migration(
    name="0002_index.sql",
    text=(
        "-- no-transaction\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS first_by_id ON first (id);\n"
        "-- next\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS first_twice ON first (id, id);\n"
    ),
)
_SLOW = Migration(name="0002_slow.sql", text="CREATE TABLE slow (id int);\nSELECT pg_sleep(600);\n")

_CREATE_ASCII = f"""
CREATE DATABASE ascii OWNER {ROLE} TEMPLATE template0
ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'
"""


@pytest.fixture
def url(empty_database_url):
    return empty_database_url


@pytest.fixture
def empty(url):
    with connect(url, application_name="test") as conn:
        yield conn


def _tables(conn):
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    return [name for (name,) in conn.execute(query) if name != "schema_migration"]


def test_each_migration_is_applied_once_and_in_order(url, empty):
    told = []

    first = migrate(url, migrations=(_FIRST,))
    second = migrate(url, migrations=(_FIRST, _SECOND), on_applied=told.append)
    third = migrate(url, migrations=(_FIRST, _SECOND))

    assert (first, second, third) == (["0001_first.sql"], ["0002_second.sql"], [])
    assert told == ["0002_second.sql"]
    assert _tables(empty) == ["first", "second"]


def test_the_releases_own_migrations_leave_nothing_pending(url, empty):
    known = [migration.name for migration in known_migrations()]
    assert pending(empty) == known

    assert migrate(url) == known

    assert pending(empty) == of_newer_release(empty) == []


def test_a_release_bears_what_a_newer_one_added(url, empty):
    newer = Migration(name="9999_newer.sql", text="CREATE TABLE newer (id int);\n")

    migrate(url, migrations=(*known_migrations(), newer))

    assert pending(empty) == []
    assert of_newer_release(empty) == [newer.name]


def test_migrations_are_numbered_without_gaps():
    numbers = [int(migration.name[:4]) for migration in known_migrations()]

    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("applied", "release", "code"),
    [
        ([_FIRST], [Migration(name=_FIRST.name, text="SELECT 2;\n")], "migration_changed"),
        ([_FIRST, _SECOND], [_FIRST], "migration_missing"),
        ([_SECOND], [_FIRST, _SECOND], "migration_out_of_order"),
    ],
)
def test_a_database_with_another_past_is_refused(url, empty, applied, release, code):
    migrate(url, migrations=tuple(applied))
    before = _tables(empty)

    with pytest.raises(Conflict) as caught:
        migrate(url, migrations=tuple(release))

    assert caught.value.code == code
    assert _tables(empty) == before


@pytest.fixture
def ascii_url(postgres_process):
    """The URL of a database as initdb makes it where it finds no locale."""
    with connect(postgres_process.server.url("postgres"), application_name="tests") as admin:
        admin.execute(_CREATE_ASCII)
        yield postgres_process.server.url("ascii", role=ROLE)
        admin.execute("DROP DATABASE ascii WITH (FORCE)")


def test_a_database_that_cannot_keep_every_text_is_refused(ascii_url):
    with pytest.raises(Conflict, match="SQL_ASCII, UTF8 is needed") as caught:
        migrate(ascii_url, migrations=(_FIRST,))

    assert caught.value.code == "database_encoding"
    with connect(ascii_url, application_name="test") as conn:
        assert _tables(conn) == []


def test_a_migration_that_fails_leaves_nothing_behind(url, empty):
    broken = Migration(name="0002_broken.sql", text="CREATE TABLE half (id int);\nSELECT 1/0;\n")

    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(url, migrations=(_FIRST, broken))

    assert _tables(empty) == ["first"]
    assert migrate(url, migrations=(_FIRST, _SECOND)) == ["0002_second.sql"]


def test_two_migrators_at_once_apply_each_file_once(url, empty):
    both = (_FIRST, _INDEX)

    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(migrate, url, migrations=both) for _ in range(2)]

    assert sorted(len(future.result()) for future in done) == [0, 2]
    assert empty.execute("SELECT count(*) FROM schema_migration").fetchone() == (2,)


def test_a_migrator_waits_while_another_one_works(url, empty):
    lock = "SELECT pg_advisory_lock(7280001)"
    with connect(url, application_name="other") as other, ThreadPoolExecutor(1) as pool:
        other.execute(lock)
        waiting = pool.submit(migrate, url, migrations=(_FIRST,))
        asked = "SELECT FROM pg_stat_activity WHERE application_name = 'duebook-migrate'"
        assert wait_until(lambda: empty.execute(asked).fetchone() is not None, seconds=30)
        assert _tables(empty) == []
        other.close()

        assert waiting.result(timeout=30) == ["0001_first.sql"]


def test_a_killed_migrator_leaves_nothing_locked(url, empty):
    program = (
        "import sys; from shared.db.migrate import Migration, migrate\n"
        f"migrate(sys.argv[1], migrations=({_FIRST!r}, {_SLOW!r}))"
    )
    migrator = subprocess.Popen([sys.executable, "-c", program, url])
    asleep = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    assert wait_until(lambda: empty.execute(asleep).fetchone() is not None, seconds=30)

    migrator.kill()
    migrator.wait(30)

    assert migrate(url, migrations=(_FIRST, _SECOND)) == ["0002_second.sql"]
    assert _tables(empty) == ["first", "second"]


def test_an_index_left_half_built_is_built_again(url, empty):
    migrate(url, migrations=(_FIRST,))
    empty.execute("INSERT INTO first VALUES (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        empty.execute("CREATE UNIQUE INDEX CONCURRENTLY first_by_id ON first (id)")

    migrate(url, migrations=(_FIRST, _INDEX))

    valid = (
        "SELECT indisvalid, indisunique FROM pg_index WHERE indexrelid = 'first_by_id'::regclass"
    )
    assert empty.execute(valid).fetchone() == (True, False)


def test_an_interrupted_file_without_transaction_can_be_repeated(url, empty):
    migrate(url, migrations=(_FIRST,))
    empty.execute("CREATE INDEX first_by_id ON first (id)")

    assert migrate(url, migrations=(_FIRST, _INDEX)) == ["0002_index.sql"]


def test_a_table_that_stays_locked_stops_the_migration(url, empty, monkeypatch):
    monkeypatch.setattr("shared.db.migrate._LOCK_SECONDS", 1)
    monkeypatch.setattr("shared.db.migrate._LOCK_TRIES", 2)
    migrate(url, migrations=(_FIRST,))
    alter = Migration(name="0002_alter.sql", text="ALTER TABLE first ADD COLUMN more int;\n")

    with empty.transaction():
        empty.execute("LOCK TABLE first")
        with pytest.raises(Unavailable) as caught:
            migrate(url, migrations=(_FIRST, alter))

    assert caught.value.code == "migration_locked"
    assert migrate(url, migrations=(_FIRST, alter)) == ["0002_alter.sql"]
