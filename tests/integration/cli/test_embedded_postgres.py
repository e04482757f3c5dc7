import os

import psycopg
import pytest

from services.cli.embedded_postgres import (
    find_binaries,
    home_folder,
    refuse_foreign,
    start_postgres,
)
from shared.errors import Unavailable
from tests.servers.temporary import temporary_folder


def test_data_stays_when_the_server_is_killed_and_started_again():
    with temporary_folder("test") as folder:
        first = start_postgres(folder / "home", temporary=True)
        with psycopg.connect(first.url("postgres"), autocommit=True) as conn:
            conn.execute("CREATE TABLE kept AS SELECT 1 AS one")
        first.child.kill()

        second = start_postgres(folder / "home", temporary=True)
        with psycopg.connect(second.url("postgres")) as conn:
            kept = conn.execute("SELECT one FROM kept").fetchall()
        second.stop()

    assert kept == [(1,)]


def test_a_server_that_cannot_start_says_why():
    with temporary_folder("test") as folder, pytest.raises(Unavailable, match="no_such_setting"):
        start_postgres(folder / "home", options=["-c", "no_such_setting=1"], temporary=True)


def test_a_wrong_bindir_is_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("PG_BINDIR", str(tmp_path))

    with pytest.raises(Unavailable, match=str(tmp_path)):
        find_binaries()


def test_data_lies_in_the_project_where_the_server_can_reach_it(tmp_path):
    with temporary_folder("test") as folder:
        assert home_folder(folder) == folder / ".run/postgres"

    tmp_path.chmod(0o700)
    home = home_folder(tmp_path)

    assert (home == tmp_path / ".run/postgres") == (os.geteuid() != 0)
    if os.geteuid() == 0:
        home.parent.rmdir()


def test_a_folder_of_somebody_else_is_not_taken_for_ours(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.symlink_to("/usr")

    with pytest.raises(Unavailable, match="belongs to somebody else"):
        refuse_foreign(foreign)
