"""Child processes that never outlive their parent, whatever ends it."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

# Holds a pipe from the parent. When the parent is gone, for whatever reason, the pipe ends and
# the child is ended too. Plain sh, since not every system can tie a child to its parent.
_GUARD = (
    'cat >/dev/null; kill -s "$1" -- "$2" 2>/dev/null; [ -z "$3" ] || { sleep 1; rm -rf "$3"; }'
)


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
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", *self._guard_arguments(temporary_folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _guard_arguments(self, temporary_folder: Path | None) -> list[str]:
        name = self._stop_signal.name.removeprefix("SIG")
        # A killed process group takes the grandchildren with it; any other signal is for the
        # process alone, which knows how to end its own children.
        target = -self.pid if self._stop_signal == signal.SIGKILL else self.pid
        return [name, str(target), str(temporary_folder or "")]

    @property
    def pid(self) -> int:
        """Return its process id, which is its group's as well."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._process.poll()

    def stop(self, *, seconds: float = 10.0) -> int:
        """End it with its stop signal, hard after ``seconds``; return its exit status."""
        if self._process.poll() is None:
            self._signal(self._stop_signal)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
        status = self._process.wait()
        self._guard.kill()
        self._guard.communicate()
        return status

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                self._process.send_signal(number)
