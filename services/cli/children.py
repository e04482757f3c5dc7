"""Child processes that never outlive their parent, whatever ends it."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

# Holds a pipe from the parent. When the parent is gone, for whatever reason, the pipe ends, and so
# does the child. Plain sh, since not every system can tie a child to its parent.
_GUARD = """
cat >/dev/null
kill -s "$1" "$2" && sleep 5
kill -s KILL -- "-$2"
[ -z "$3" ] || rm -rf "$3"
"""


class Child:
    """A running child process in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        output: IO[bytes] | int | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        temporary_folder: Path | None = None,
        run_as: Mapping[str, Any] | None = None,
    ) -> None:
        """Start it; output goes to ``output`` (None: where ours goes).

        ``temporary_folder`` is removed if the parent dies; ``run_as`` has Popen's user arguments.
        """
        self._stop_signal = stop_signal
        self._process = subprocess.Popen(
            arguments,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            start_new_session=True,
            **(run_as or {}),
        )
        signal_name = stop_signal.name.removeprefix("SIG")
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", signal_name, str(self.pid), str(temporary_folder or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return its process id, which is its group's as well."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._process.poll()

    def wait(self, *, seconds: float) -> int | None:
        """Return its exit status, or None if it still runs after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, *, seconds: float = 10.0) -> int:
        """Ask it to end, end it hard after ``seconds``; return its exit status."""
        if self.poll() is None:
            self._process.send_signal(self._stop_signal)
        self.wait(seconds=seconds)
        return self.kill()

    def kill(self) -> int:
        """End it, and what it started, at once; return its exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._guard.kill()
        self._guard.communicate()
        return self._process.wait()
