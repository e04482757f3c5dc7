import os
import signal

import pytest

from services.cli.children import Child
from services.cli.supervisor import Ended, Supervisor
from shared.lifecycle import Stop, wait_until

_SHELL = {"PATH": "/usr/bin:/bin"}


def a_child(script):
    return Child(["sh", "-c", script], environment=_SHELL)


def watching(child):
    return Supervisor(watched={"it": child}, grace_seconds=10)


@pytest.mark.parametrize(
    ("script", "status", "told"),
    [
        ("exit 3", 3, "it ended with status 3"),
        ("exit 0", 1, "it ended with status 0"),
        ("kill -9 $$", 137, "it ended by signal 9"),
    ],
)
def test_a_process_that_ends_by_itself_ends_the_wait_with_a_status(script, status, told):
    child = a_child(script)

    with watching(child) as supervisor, pytest.raises(Ended, match=told) as raised:
        supervisor.wait(Stop())

    assert raised.value.status == status
    child.kill()


def test_a_stop_ends_the_wait_and_what_was_started_is_stopped(tmp_path):
    pid_file = tmp_path / "pid"
    program = tmp_path / "sleeper.py"
    program.write_text(
        "import os, pathlib, signal\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        "signal.pause()\n"
    )
    foreign, stop = a_child("exec sleep 600"), Stop()
    environment = {**_SHELL, "PYTHONPATH": str(tmp_path)}

    with watching(foreign) as supervisor:
        supervisor.start("sleeper", ["sleeper"], environment=environment)
        assert wait_until(lambda: pid_file.exists() and pid_file.read_text(), seconds=30)
        stop.request()
        supervisor.wait(stop)

    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), signal.SIGCONT)
    assert foreign.poll() is None  # it is stopped by whom it belongs to
    foreign.kill()
