"""Group commit: the steps of many pieces of work in one transaction, by size or age.

One commit for each run would cost more than the run.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import psycopg
import structlog
from psycopg import Connection
from psycopg.errors import (
    DeadlockDetected,
    LockNotAvailable,
    QueryCanceled,
    SerializationFailure,
)

from services.worker.steps import (
    Finish,
    HandBack,
    Key,
    Postpone,
    Step,
    ids_of,
    key_of,
    tell_outcome,
    write_steps,
)
from shared.domain.runs import MAX_ERROR, clean_text
from shared.lifecycle import Stop, backoff_seconds
from shared.observability import metrics

_log = structlog.get_logger()
_GROUP = 256
# How long a group waits for company: a thread may wait for its answer, or nobody does.
_AGE_SECONDS = 0.003
_QUIET_AGE_SECONDS = 0.015
_PAUSE_LIMIT_SECONDS = 5.0
_GIVING_UP_SECONDS = 1.0
# What PostgreSQL or its driver has against a value, and what keeps a row from being written just
# now. All else is the database's own trouble, which another session may not have.
_FAULTS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.NotSupportedError,
)
_TROUBLES_OF_A_ROW = (LockNotAvailable, DeadlockDetected, SerializationFailure, QueryCanceled)


@dataclass(slots=True)
class _Entry:
    """``tried``: it was sent before, and nobody knows what came of it.

    ``awaited``: somebody waits for the answer.
    """

    step: Step
    awaited: bool = True
    written: "Future[bool]" = field(default_factory=Future)
    tried: bool = False

    def answer(self, *, is_held: bool) -> None:
        """Say what came of the step; also in the log, where nobody waits for the answer."""
        if is_held:
            tell_outcome(self.step)
        elif not self.tried and _ends_the_hold(self.step):
            metrics.LEASES_LOST.inc()
            _log.warning("work_fenced_out", **ids_of(self.step.work))
        self.written.set_result(is_held)


class Committer:
    """A thread with a session of its own that writes steps in groups."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._ready = threading.Condition()
        self._entries: list[_Entry] = []
        self._in_no_hurry = False
        self._closing = False
        self._ended = False
        self._give_up = Stop()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether steps are being written."""
        return self._thread.is_alive()

    def submit(self, step: Step, *, awaited: bool = True) -> "Future[bool]":
        """Put a step into the next group; the future says whether the lease still held.

        One that is not ``awaited`` may wait longer for company. After the end nothing is written
        any more, and the answer is no.
        """
        entry = _Entry(step, awaited=awaited)
        with self._ready:
            if self._ended:
                entry.written.set_result(False)
                return entry.written
            self._entries.append(entry)
            # To wake the thread for each step would cost more than the step.
            if len(self._entries) in (1, _GROUP) or (awaited and self._in_no_hurry):
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
        self._thread.join(_GIVING_UP_SECONDS)

    def _run(self) -> None:
        failures = 0
        while group := self._next_group():
            left = self._write(group)
            with self._ready:
                self._entries += left
            # One that alone cannot be written, say for a lock on its row, holds up no other.
            failures = failures + 1 if len(left) == len(group) else 0
            if failures:
                self._give_up.wait(backoff_seconds(failures, limit=_PAUSE_LIMIT_SECONDS))
        self._close()

    def _next_group(self) -> list[_Entry]:
        """Wait for a first step, then a few milliseconds for company; [] when closed and empty."""
        with self._ready:
            self._ready.wait_for(lambda: self._entries or self._closing)
            self._wait_for_company()
            size = _first_repeat(self._entries[:_GROUP])
            group, self._entries = self._entries[:size], self._entries[size:]
            self._ended = not group
            return group

    def _wait_for_company(self) -> None:
        self._ready.wait_for(self._is_full, timeout=_AGE_SECONDS)
        self._in_no_hurry = not any(entry.awaited for entry in self._entries)
        if self._in_no_hurry:
            self._ready.wait_for(
                lambda: self._is_full() or self._entries[-1].awaited,
                timeout=_QUIET_AGE_SECONDS - _AGE_SECONDS,
            )
            self._in_no_hurry = False

    def _is_full(self) -> bool:
        return len(self._entries) >= _GROUP or self._closing

    def _write(self, group: list[_Entry]) -> list[_Entry]:
        """Write a group, together or else one by one; return what is to be written later."""
        if self._give_up.requested:
            _refuse(group)
            return []
        try:
            self._write_together(group)
        except Exception as error:
            return self._write_apart(group, error)
        return []

    def _write_apart(self, group: list[_Entry], error: Exception) -> list[_Entry]:
        is_lost = self._conn is None or self._conn.closed
        is_fault = isinstance(error, _FAULTS) or not isinstance(error, psycopg.Error)
        if is_lost or not (is_fault or isinstance(error, _TROUBLES_OF_A_ROW)):
            _log.warning("commit_failed", reason=str(error), steps=len(group))
            self._close()
            return group
        if len(group) > 1:
            return [left for entry in group for left in self._write([entry])]
        if is_fault:
            _log.error("step_refused", **ids_of(group[0].step.work), exc_info=error)
            return self._write_bare(group[0], error)
        _log.warning("commit_failed", reason=str(error), steps=1)
        return group

    def _write_bare(self, entry: _Entry, error: Exception) -> list[_Entry]:
        """Write a refused step without what should have followed, as failed; others are given up.

        Given up as well, its work would be executed again and again until its losses end it.
        """
        step = entry.step
        if not isinstance(step, Finish) or step.follow is None:
            _refuse([entry])
            return []
        told = clean_text(f"what follows could not be recorded: {error}", MAX_ERROR)
        error_told = step.error if step.status == "failed" else None
        entry.step = replace(step, status="failed", error=error_told or told, follow=None)
        return self._write([entry])

    def _write_together(self, group: list[_Entry]) -> None:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        try:
            with self._conn.transaction():
                held = write_steps(self._conn, [entry.step for entry in group])
        except psycopg.Error:
            for entry in group:
                entry.tried = entry.tried or self._conn.closed
            raise
        for entry in group:
            entry.answer(is_held=key_of(entry.step.work) in held)

    def _close(self) -> None:
        if self._conn:
            self._conn.close()


def _ends_the_hold(step: Step) -> bool:
    """Tell whether the work was held until this step, and is no more; nobody waits for such a one.

    Not if it may have ended before, by a COMMIT that was not answered.
    """
    if isinstance(step, Postpone):
        return step.receipts is not None
    return isinstance(step, Finish | HandBack)


def _refuse(group: list[_Entry]) -> None:
    for entry in group:
        entry.written.set_result(False)


def _first_repeat(entries: list[_Entry]) -> int:
    """Return how many entries stand before one of a row that is already among them.

    A worker that lost a lease may hold the same row again under another: never in one group.
    """
    seen: set[Key] = set()
    for position, entry in enumerate(entries):
        key = key_of(entry.step.work)
        if key in seen:
            return position
        seen.add(key)
    return len(entries)
