"""Where the command line writes to, and what ends it: terminals, pipes, disks, wrong addresses."""

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from psycopg.sql import SQL, Identifier

from shared.db.connection import connect
from tests.builders_db import insert_table
from tests.integration.cli.conftest import CommandLine

DUEBOOK = Path(sys.executable).with_name("duebook")
FULL = "/dev/full"


def spawned(*arguments, shell_end="", **environment):
    """Run a command as a shell does, with what the shell says of its streams; return all of it."""
    return subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {shell_end}', DUEBOOK, *map(str, arguments)],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        timeout=60,
    )


def on_terminal(*arguments, columns, **environment):
    """Run a command on a terminal of so many columns and return its lines."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environment}
    process = subprocess.Popen([DUEBOOK, *arguments], env=env, stdin=its, stdout=its, stderr=its)
    os.close(its)
    told = b""
    while part := _read(ours):
        told += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return told.decode().replace("\r", "").splitlines()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture
def strange(on_api, conn, tenant):
    insert_table(conn, tenant_id=tenant.id, name="案件 😀 é")
    return on_api


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_what_a_terminal_cannot_show_is_written_out(strange, encoding):
    environment = {**strange.environment, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}

    scripts = spawned("tables", "--json", **environment)
    people = spawned("tables", **environment)
    wrong = spawned("tables", "show", "案件", **environment)

    assert json.loads(scripts.stdout.decode(encoding))[0]["name"] == "案件 😀 é"
    shown = r"\u6848\u4ef6" if encoding != "utf-8" else "案件"
    assert shown in people.stdout.decode(encoding)
    assert (people.returncode, wrong.returncode) == (0, 1)
    assert b"there is no table" in wrong.stderr


@pytest.mark.parametrize("command", [["settings"], ["openapi"], ["--help"], ["runs", "--help"]])
def test_a_full_disk_is_told_in_a_line(command):
    done = spawned(*command, shell_end=f"> {FULL}")

    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device\n")


@pytest.mark.parametrize("output", ["/nowhere/bundle.jsonl", FULL])
def test_a_file_that_cannot_be_written_is_told_in_a_line(strange, output):
    done = strange.run_apart("export", "--output", output)

    assert done.returncode == 1
    assert re.fullmatch(r"Error: (/nowhere/.*: No such file|No space left).*\n", done.stderr)


@pytest.mark.parametrize("command", [["settings"], ["openapi"], ["--help"]])
def test_whoever_closes_a_pipe_hears_no_more(command):
    done = spawned(*command, shell_end="| true")

    assert done.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_leads_nowhere(closed):
    assert spawned("settings", shell_end=closed).returncode == 0


def test_a_document_out_of_a_closed_input_is_empty(on_api):
    done = spawned("plan", "-", shell_end="<&-", **on_api.environment)

    assert (done.returncode, done.stderr) == (1, b"Error: the document is empty\n")


def test_a_narrow_terminal_is_told_the_members_of_each_row():
    wide = on_terminal("settings", columns=200)
    narrow = on_terminal("settings", columns=24)

    assert any(line.startswith("ADMIN_TOKEN ") for line in wide)
    assert any(re.fullmatch(r"key +ADMIN_TOKEN", line) for line in narrow)
    assert not any(line.startswith("ADMIN_TOKEN") for line in narrow)


def test_an_interrupted_command_says_so_and_has_an_exit_code():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        environment = {"PATH": os.environ["PATH"], "DUEBOOK_API": url, "DUEBOOK_TOKEN": "dbk_any"}
        process = subprocess.Popen([DUEBOOK, "runs"], env=environment, stderr=subprocess.PIPE)
        asking, _ = server.accept()
        with asking:
            asking.recv(1)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)

    assert (process.returncode, said) == (130, b"Error: interrupted\n")


def test_a_question_that_is_interrupted_has_another_exit_code():
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [DUEBOOK, "secrets", "set", "crm_token"],
        env={"PATH": os.environ["PATH"], "DUEBOOK_TOKEN": "dbk_any"},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    told = b""
    while b"value" not in told and (part := _read(ours)):
        told += part
    process.send_signal(signal.SIGINT)
    while part := _read(ours):
        told += part
    os.close(ours)

    assert (process.wait(timeout=60), told.split()[-1]) == (1, b"Aborted!")


# What comes after a command that fails in this process.
_AFTERWARDS = """
import sys
from services.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    print("and then")
"""


def test_an_input_that_cannot_be_read_takes_no_output_away():
    with socket.socket() as nowhere:
        done = subprocess.run(
            [sys.executable, "-c", _AFTERWARDS, "secrets", "set", "crm_token"],
            env={"PATH": os.environ["PATH"], "DUEBOOK_TOKEN": "dbk_any"},
            stdin=nowhere,
            capture_output=True,
            timeout=60,
        )

    assert done.stderr.endswith(b"not connected\n")
    assert done.stdout == b"and then\n"


@contextmanager
def other_server(status, body):
    """Serve something that is not the API; give its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "exit_code"),
    [
        (200, b"<html>", 1),
        (200, b"[]", 1),
        (200, b'{"hello": 1}', 1),
        (301, b"", 1),
        (404, b"<html>", 1),
        (500, b'"x"', 1),
        (502, b"<html>", 3),
        (504, b"", 3),
    ],
)
def test_what_answers_without_being_the_api_is_told_in_a_line(status, body, exit_code):
    with other_server(status, body) as url:
        done = CommandLine(DUEBOOK_API=url, DUEBOOK_TOKEN="dbk_any").run("runs")

    assert done.exit_code == exit_code
    told = "the API is away" if exit_code == 3 else "is the address right?"
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_answer_without_members_is_one():
    with other_server(200, b"{}") as url:
        told = CommandLine(ADMIN_TOKEN="any").told("tick", "--api", url)

    assert told == {}


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://127.0.0.1", "http://", "http://[::1", "http://127.0.0.1:99999"]
)
def test_what_is_no_address_is_wrong_usage(url):
    moderator = CommandLine(DUEBOOK_TOKEN="dbk_any", ADMIN_TOKEN="any")

    for command in ("runs", "tick"):
        done = moderator.run(command, "--api", url)
        assert done.exit_code == 2
        assert "the address of the API must be like https://" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["runs", "show"],
        ["runs", "list", "--record"],
        ["actions", "show"],
        ["actions", "cancel"],
        ["actions", "list", "--contact"],
        ["changes", "approve"],
        ["events", "show"],
        ["why", "orders", "trigger"],
    ],
)
def test_what_is_no_id_is_wrong_usage(command):
    moderator = CommandLine(DUEBOOK_TOKEN="dbk_any")

    for id, told in (("abc", "'abc' is no id"), ("0", "'0' is no id"), (2**63, "is no id")):
        done = moderator.run(*command, id)
        assert done.exit_code == 2
        assert told in done.stderr


def test_an_argument_that_is_not_utf_8_is_wrong_usage(on_database, conn):
    done = on_database.run("tenants", "create", "\udcff")

    assert done.exit_code == 2
    assert done.stderr == "Error: an argument is not UTF-8: '\\udcff'\n"


def test_a_database_that_is_only_read_is_not_reached(on_database, postgres_process, conn):
    read_only = SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
    with connect(postgres_process.server.url("postgres"), application_name="test") as admin:
        admin.execute(read_only.format(Identifier(conn.info.dbname)))

    done = on_database.run("tenants", "create", "new")

    assert done.exit_code == 3
    assert done.stderr.startswith("Error: the database: cannot execute INSERT in a read-only")
