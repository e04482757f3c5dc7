import socket
import subprocess
import sys

import pytest

from services.cli.dev import alone_in, first_free_port, is_given
from shared.errors import Unavailable


def test_a_port_that_is_taken_is_passed_over():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]

        assert first_free_port(taken, host="127.0.0.1") > taken
    assert first_free_port(taken, host="127.0.0.1") == taken


def test_a_port_that_cannot_be_had_at_all_says_why():
    with pytest.raises(Unavailable, match=r"^port 1024 of 192\.0\.2\.1: "):
        first_free_port(1024, host="192.0.2.1")


def test_a_folder_holds_one_dev_at_a_time_and_is_free_when_that_was_killed(tmp_path):
    held = (
        "import pathlib, sys, time\n"
        "from services.cli.dev import alone_in\n"
        "with alone_in(pathlib.Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", held, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(Unavailable, match="already"), alone_in(tmp_path):
            pass
        other.kill()
        other.wait()

        with alone_in(tmp_path):
            pass


@pytest.mark.parametrize(
    ("environment", "given"),
    [
        ({}, False),
        ({"DATABASE_URL": ""}, False),
        ({"DATABASE_URL": "postgresql://chosen"}, True),
        ({"DATABASE_URL_FILE": "secret"}, True),
        (
            {"DATABASE_URL": "postgresql://ours", "DUEBOOK_DEV_DATABASE_URL": "postgresql://ours"},
            False,
        ),
        (
            {
                "DATABASE_URL": "postgresql://chosen",
                "DUEBOOK_DEV_DATABASE_URL": "postgresql://ours",
            },
            True,
        ),
    ],
)
def test_a_database_is_chosen_by_hand_not_by_the_environment_of_an_earlier_dev(environment, given):
    assert is_given(environment) == given
