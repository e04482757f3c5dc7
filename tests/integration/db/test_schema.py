from pathlib import Path

from tests.servers.schema import describe

_WRITTEN = Path(__file__).parents[3] / "docs/schema.sql"


def test_the_written_schema_is_what_the_migrations_make(conn):
    assert describe(conn) == _WRITTEN.read_text("utf-8"), "run `make schema`"
