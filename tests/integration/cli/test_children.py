import subprocess
import sys

import pytest

from services.cli.children import Child

_SHELL = {"PATH": "/usr/bin:/bin"}

# Starts a child that outlives it by far, says so, and waits to be killed.
_PARENT = """
import sys, time
from pathlib import Path
from services.cli.children import Child
child = Child(["sleep", "600"], environment={"PATH": "/usr/bin:/bin"},
              temporary_folder=Path(sys.argv[1]))
print("started", flush=True)
time.sleep(600)
"""


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, folder], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"started\n"

    parent.kill()
    # The pipe ends when its last holder does, and that is the child.
    rest, _ = parent.communicate(timeout=30)

    assert rest == b""


@pytest.mark.parametrize("script", ["exec sleep 600", "trap '' TERM; sleep 600"])
def test_a_child_that_does_not_heed_is_ended_hard(script):
    child = Child(["sh", "-c", script], environment=_SHELL)

    child.stop(seconds=0.2)

    assert child.poll() is not None


def test_stop_returns_the_status_of_a_child_that_ended_by_itself():
    child = Child(["sh", "-c", "exit 7"], environment=_SHELL)
    child.wait(seconds=30)

    assert child.stop() == 7
