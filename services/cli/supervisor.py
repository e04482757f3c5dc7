"""Processes that run together: when one ends by itself, somebody must hear of it."""

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from services.cli.children import Child
from shared.errors import AppError
from shared.lifecycle import Stop

_LOOK_SECONDS = 0.2


class Ended(AppError):
    """A process ended although nobody had asked it to; ``status`` is good for an exit code."""

    code = "process_ended"

    def __init__(self, name: str, status: int) -> None:
        how = f"with status {status}" if status >= 0 else f"by signal {-status}"
        super().__init__(f"{name} ended {how}")
        self.status = 128 - status if status < 0 else status or 1


class Supervisor:
    """Starts processes, watches them, and stops them all at the end of its block."""

    def __init__(self, *, watched: Mapping[str, Child], grace_seconds: float) -> None:
        """``watched`` are processes of somebody else's, who stops them."""
        self._watched = dict(watched)
        self._started: list[Child] = []
        self._grace_seconds = grace_seconds

    def start(
        self, name: str, arguments: Sequence[str | Path], *, environment: Mapping[str, str]
    ) -> None:
        """Start a Python module with its arguments; its output goes where ours goes."""
        child = Child([sys.executable, "-m", *arguments], environment=environment)
        self._watched[name] = child
        self._started.append(child)

    def check(self) -> None:
        """Raise Ended when a process has ended."""
        for name, child in self._watched.items():
            if (status := child.poll()) is not None:
                raise Ended(name, status)

    def wait(self, stop: Stop) -> None:
        """Wait until the stop is asked for. Raises Ended when a process ends before."""
        while not stop.wait(_LOOK_SECONDS):
            self.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop all at the same time, as each may need its while."""
        with ThreadPoolExecutor(max(len(self._started), 1)) as pool:
            for child in self._started:
                pool.submit(child.stop, seconds=self._grace_seconds)
