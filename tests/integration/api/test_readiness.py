import psycopg

from services.api.readiness import readiness_check
from shared.db.connection import connect


def check(url):
    return readiness_check(lambda: connect(url, application_name="test"))()


def test_it_is_ready_with_every_migration(database_url):
    assert check(database_url) is None


def test_it_is_not_ready_while_migrations_are_missing(empty_database_url):
    assert check(empty_database_url).startswith("migrations missing: 0001_core.sql")


def test_it_stays_ready_while_a_later_release_takes_over(conn, database_url):
    conn.execute(
        "INSERT INTO schema_migration VALUES ('9999_later.sql', %s, clock_timestamp())", [b"c" * 32]
    )

    assert check(database_url) is None


def test_it_is_not_ready_while_the_database_is_away():
    def away():
        raise psycopg.OperationalError("connection refused\nand more")

    assert readiness_check(away)() == "database: connection refused"
