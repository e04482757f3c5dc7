"""Every order in which the statements of two sides can meet, one after the other, by real sessions.

The product's own functions run, each side in a thread with a session of its own that stops before
each statement until it is let go on. Nothing is left to luck: the orders are walked through depth
first, and in each of them one statement runs at a time, save one that waits for a lock. Two orders
that differ only in a command to Redis beside a statement to PostgreSQL are one: neither server
knows of the other, so of these only the first is run.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection
from redis import Redis

from shared.lifecycle import wait_until

_SECONDS = 20.0
_QUICK_SECONDS = 0.01
_BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"

_present = threading.local()


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side: its session and what it does."""

    name: str
    conn: Connection
    work: Callable[[], object]


@dataclass(kw_only=True)
class Run:
    """One order: what was done (side, step), in this order, and how many choices there were."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    choices: list[tuple[int, int]] = field(default_factory=list)

    def is_before(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Tell whether a step was done, and before another or without it."""
        if one not in self.steps:
            return False
        return other not in self.steps or self.steps.index(one) < self.steps.index(other)


def step(name: str) -> None:
    """Stop here until it is this side's turn; outside of a run go on."""
    side = getattr(_present, "side", None)
    if side is not None:
        side.stop_before(name)


class SteppedConnection(psycopg.Connection):
    """A session that stops before each statement and before each COMMIT.

    ``passing`` tells, by the statement, what cannot matter to the other side: it is not stopped at.
    """

    passing: Callable[[str], bool] = staticmethod(lambda _statement: False)

    def wait(self, gen, *args, **options):
        """Stop, then let the driver do what it was about to do."""
        name = gen.gi_code.co_name
        if name == "_execute_gen":
            statement = str(gen.gi_frame.f_locals["query"])
            if not self.passing(statement):
                step(" ".join(statement.split()[:6]))
        elif name == "_exit_gen":
            step("COMMIT")
        return super().wait(gen, *args, **options)


class SteppedRedis(Redis):
    """A client that stops before each command."""

    def execute_command(self, *arguments, **options):
        """Stop, then send the command."""
        step(f"redis {arguments[0]}")
        return super().execute_command(*arguments, **options)


def every_interleaving(
    world: Callable[[], tuple[list[Side], Callable[[Run], None]]], *, monitor: Connection
) -> list[Run]:
    """Run the sides in every order, and the check of each world after its run; return all runs.

    ``world`` makes a fresh one. ``monitor`` is a session that sees who waits for a lock.
    """
    runs = []
    prefix: list[int] | None = []
    while prefix is not None:
        sides, check = world()
        run = _Driver(sides, monitor).run(prefix)
        check(run)
        runs.append(run)
        prefix = _next(run.choices)
    return runs


def _next(choices: list[tuple[int, int]]) -> list[int] | None:
    while choices and choices[-1][0] + 1 == choices[-1][1]:
        choices = choices[:-1]
    if not choices:
        return None
    return [chosen for chosen, _ in choices[:-1]] + [choices[-1][0] + 1]


class _Driver:
    """Lets the sides of one world go on, one step at a time."""

    def __init__(self, sides: list[Side], monitor: Connection) -> None:
        self._changed = threading.Condition()
        self._threads = [_SideThread(side, self._changed) for side in sides]
        self._monitor = monitor

    def run(self, prefix: list[int]) -> Run:
        """Take the choices of the prefix, then always the first."""
        run = Run()
        for thread in self._threads:
            thread.start()
        last: _SideThread | None = None
        while waiting := self._settled():
            options = [thread for thread in waiting if not self._is_told_before(last, thread)]
            chosen = prefix[len(run.choices)] if len(run.choices) < len(prefix) else 0
            run.choices.append((chosen, max(len(options), 1)))
            last = (options or waiting)[chosen]
            run.steps.append((last.side.name, str(last.next_step)))
            last.go_on()
        for thread in self._threads:
            thread.join()
            if thread.error is not None:
                raise AssertionError(f"after {run.steps}") from thread.error
        return run

    def _is_told_before(self, last: "_SideThread | None", thread: "_SideThread") -> bool:
        """Tell whether the two steps the other way round are the same order, which comes first."""
        return (
            last is not None
            and self._threads.index(thread) < self._threads.index(last)
            and _is_of_redis(last.last_step) != _is_of_redis(thread.next_step)
        )

    def _settled(self) -> list["_SideThread"]:
        """Wait until every side stands before a step, is done, or waits for another's lock."""
        with self._changed:
            quick = self._changed.wait_for(self._all_still, _QUICK_SECONDS)
        if not quick:
            assert wait_until(self._all_still_or_blocked, seconds=_SECONDS, every_seconds=0.002)
        waiting = [thread for thread in self._threads if thread.next_step is not None]
        assert waiting or self._all_still(), "each side waits for the other"
        return waiting

    def _all_still(self) -> bool:
        return all(thread.done or thread.next_step is not None for thread in self._threads)

    def _all_still_or_blocked(self) -> bool:
        return all(
            thread.done or thread.next_step is not None or self._is_blocked(thread)
            for thread in self._threads
        )

    def _is_blocked(self, thread: "_SideThread") -> bool:
        pid = thread.side.conn.info.backend_pid
        return self._monitor.execute(_BLOCKED, [pid]).fetchone() == (True,)


class _SideThread(threading.Thread):
    """A side on its way; ``next_step`` is the one that it stands before, None while it moves."""

    def __init__(self, side: Side, changed: threading.Condition) -> None:
        super().__init__(name=side.name, daemon=True)
        self.side = side
        self.next_step: str | None = None
        self.last_step: str | None = None
        self.done = False
        self.error: Exception | None = None
        self._changed = changed
        self._turn = threading.Semaphore(0)

    def run(self) -> None:
        """Do the work, from step to step."""
        _present.side = self
        try:
            self.side.work()
        except Exception as error:
            self.error = error
        with self._changed:
            self.done = True
            self._changed.notify_all()

    def stop_before(self, name: str) -> None:
        """Say which step comes next, and wait for the turn."""
        with self._changed:
            self.next_step = name
            self._changed.notify_all()
        assert self._turn.acquire(timeout=_SECONDS)

    def go_on(self) -> None:
        """Let the step be done."""
        self.last_step, self.next_step = self.next_step, None
        self._turn.release()


def _is_of_redis(name: str | None) -> bool:
    return name is not None and name.startswith("redis ")
