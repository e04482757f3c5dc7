"""Group commit: intents, receipts and ends of many runs in one transaction, by size or age.

One commit for each run would cost more than the run. Every statement names the lease, so that a
group may be sent again after a lost answer, and whoever lost its lease changes nothing.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection

from shared.domain.runs import ClaimedRun
from shared.lifecycle import Stop, backoff_seconds
from shared.queries import work

_log = structlog.get_logger()
_GROUP = 256
_AGE_SECONDS = 0.003

Receipts = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The external action at ``position`` is about to be sent."""

    run: ClaimedRun
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """The receipts so far; the run goes on."""

    run: ClaimedRun
    receipts: Receipts


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run ends; ``error`` is None exactly when it is done."""

    run: ClaimedRun
    receipts: Receipts
    status: Literal["done", "failed"]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postpone:
    """The run waits ``delay_seconds`` in the database and then goes on."""

    run: ClaimedRun
    receipts: Receipts
    delay_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """The run did not begin, or stands between two actions: somebody else may have it."""

    run: ClaimedRun


Step = Intent | Save | Finish | Postpone | HandBack


@dataclass(frozen=True, slots=True)
class _Entry:
    step: Step
    written: "Future[bool]" = field(default_factory=Future)


class Committer:
    """A thread with a session of its own that writes steps in groups."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._ready = threading.Condition()
        self._entries: list[_Entry] = []
        self._closing = False
        self._give_up = Stop()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def submit(self, step: Step) -> "Future[bool]":
        """Put a step into the next group; the future says whether the lease still held."""
        entry = _Entry(step)
        with self._ready:
            self._entries.append(entry)
            self._ready.notify()
        return entry.written

    def close(self, *, seconds: float) -> None:
        """Write what was submitted and end; what cannot be written within ``seconds`` is left.

        The leases bring back what is left.
        """
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join(seconds)
        self._give_up.request()
        self._thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            self._write_until_written(group)
        if self._conn:
            self._conn.close()

    def _next_group(self) -> list[_Entry]:
        """Wait for a first step, then a few milliseconds for company; [] when closed and empty."""
        with self._ready:
            self._ready.wait_for(lambda: self._entries or self._closing)
            if not self._closing and len(self._entries) < _GROUP:
                self._ready.wait_for(
                    lambda: len(self._entries) >= _GROUP or self._closing, timeout=_AGE_SECONDS
                )
            size = _first_repeat(self._entries[:_GROUP])
            group, self._entries = self._entries[:size], self._entries[size:]
            return group

    def _write_until_written(self, group: list[_Entry]) -> None:
        failures = 0
        while not self._give_up.requested:
            try:
                self._write(group)
            except psycopg.OperationalError as error:
                failures += 1
                _log.warning("commit_failed", reason=str(error), steps=len(group))
                self._drop_connection()
                self._give_up.wait(backoff_seconds(failures, limit=5.0))
            except Exception as error:
                self._set_aside(group, error)
                return
            else:
                return
        for entry in group:
            entry.written.set_result(False)

    def _set_aside(self, group: list[_Entry], error: Exception) -> None:
        """One step that cannot be written must not take its group with it."""
        if len(group) > 1:
            for entry in group:
                self._write_until_written([entry])
            return
        _log.error("step_refused", run_id=group[0].step.run.id, exc_info=error)
        group[0].written.set_result(False)

    def _write(self, group: list[_Entry]) -> None:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        with self._conn.transaction():
            held = write_steps(self._conn, [entry.step for entry in group])
        for entry in group:
            entry.written.set_result(entry.step.run.id in held)

    def _drop_connection(self) -> None:
        if self._conn:
            self._conn.close()
            self._conn = None


def _first_repeat(entries: list[_Entry]) -> int:
    """Return how many entries stand before one of a run that is already among them.

    A worker that lost a lease may hold the same run again under another: never in one group.
    """
    seen: set[int] = set()
    for position, entry in enumerate(entries):
        if entry.step.run.id in seen:
            return position
        seen.add(entry.step.run.id)
    return len(entries)


def write_steps(conn: Connection, steps: list[Step]) -> set[int]:
    """Write the steps, one a run at most; return the ids of the runs whose lease still held."""
    held: set[int] = set()
    # In id order, so that two groups never wait for each other in a circle.
    steps = sorted(steps, key=lambda step: step.run.id)
    for step in steps:
        if isinstance(step, Save | Postpone):
            held |= _write_one(conn, step)
    for token, intents in _by_token(step for step in steps if isinstance(step, Intent)).items():
        held.update(work.mark_intents(conn, lease_token=token, intents=intents))
    if finishes := [_finish_of(step) for step in steps if isinstance(step, Finish)]:
        held.update(work.finish(conn, finishes))
    if back := [step.run for step in steps if isinstance(step, HandBack)]:
        held.update(work.hand_back(conn, [(run.id, run.lease_token) for run in back]))
    return held


def _by_token(intents: Iterable[Intent]) -> dict[UUID, list[tuple[int, int]]]:
    groups: dict[UUID, list[tuple[int, int]]] = {}
    for intent in intents:
        groups.setdefault(intent.run.lease_token, []).append((intent.run.id, intent.position))
    return groups


def _finish_of(step: Finish) -> work.Finish:
    return work.Finish(
        run_id=step.run.id,
        lease_token=step.run.lease_token,
        receipts=step.receipts,
        status=step.status,
        error=step.error,
    )


def _write_one(conn: Connection, step: Save | Postpone) -> set[int]:
    run = step.run
    if isinstance(step, Save):
        written = work.save_receipts(
            conn, run_id=run.id, lease_token=run.lease_token, receipts=step.receipts
        )
    else:
        written = work.postpone(
            conn,
            run_id=run.id,
            lease_token=run.lease_token,
            receipts=step.receipts,
            delay_seconds=step.delay_seconds,
        )
    return {run.id} if written else set()
