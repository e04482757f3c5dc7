"""From claimed work to threads: no more than can start soon; what did not begin is handed back."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

import psycopg
import structlog

from services.worker.committer import Committer
from services.worker.holdings import Held, Holdings
from services.worker.steps import HandBack
from shared.lifecycle import Stop, backoff_seconds, monotonic
from shared.messaging.ports import Consumer

_log = structlog.get_logger()
_WAIT_SECONDS = 1.0
_PAUSE_LIMIT_SECONDS = 5.0
# Once a thread is free, wait this long for others: claims of one cost more than the work.
_COMPANY_SECONDS = 0.002
# So much is taken ahead of the threads as came to an end in so long a time of late: it can start
# soon, and no thread waits for a claim. Behind slow calls nothing is.
_AHEAD_SECONDS = 0.02
# What stays in the database is executed in groups of at most so many: as many share a commit, and
# wait for the slowest among them.
_TOGETHER = 10
# After so many lost workers a row is executed alone: if it kills its process, it takes no other
# with it, whose budget would be spent beside it. One loss is a deployment or a host.
_SUSPECT_LOSSES = 2


class Dispatcher:
    """Receives claimed work on a thread of its own and gives them to a fixed number of others.

    All are daemons: one that hangs in an action does not keep the process from ending.
    """

    def __init__(
        self,
        *,
        consumer: Consumer,
        execute: Callable[[Held], None],
        holdings: Holdings,
        committer: Committer,
        threads: int,
        may_begin: Callable[[], bool],
        joins: Callable[[Held], bool] = lambda _held: False,
        execute_together: Callable[[Sequence[Held]], Sequence[Held]] = lambda group: group,
    ) -> None:
        """``execute_together`` executes several that ``joins``, and returns those it left alone."""
        self._consumer = consumer
        self._joins = joins
        self._execute_together = execute_together
        self._execute = execute
        self._holdings = holdings
        self._committer = committer
        self._may_begin = may_begin
        self._stop = Stop()
        self._waiting: SimpleQueue[Sequence[Held]] = SimpleQueue()
        self._changed = threading.Condition()  # guards what follows
        self._in_hand = 0
        self._taking = False
        self._ahead = 0
        self._ended_since = 0
        self._since = monotonic()
        self._intake = threading.Thread(target=self._run, name="intake", daemon=True)
        self._threads = [
            threading.Thread(target=self._work, name=f"action-{number}", daemon=True)
            for number in range(1, threads + 1)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in [*self._threads, self._intake]:
            thread.start()

    @property
    def runs(self) -> bool:
        """Whether all its threads do."""
        return all(thread.is_alive() for thread in [*self._threads, self._intake])

    def drain(self, *, seconds: float) -> bool:
        """Take nothing more, hand back what did not begin, let end what did.

        True when all had ended within ``seconds``.
        """
        deadline = monotonic() + seconds
        self._stop.request()
        self._hand_back_waiting()
        self._consumer.stop()
        with self._changed:
            ended = self._changed.wait_for(
                lambda: not (self._in_hand or self._taking),
                timeout=max(deadline - monotonic(), 0),
            )
        for _ in self._threads:
            self._waiting.put(())
        return ended

    def _run(self) -> None:
        failures = 0
        while not self._stop.requested:
            try:
                self._take()
                failures = 0
            except Exception as error:
                failures += 1
                if isinstance(error, psycopg.Error):
                    _log.warning("intake_failed", reason=str(error), failures=failures)
                else:
                    _log.exception("intake_crashed", failures=failures)
                self._stop.wait(backoff_seconds(failures, limit=_PAUSE_LIMIT_SECONDS))

    def _take(self) -> None:
        free = self._await_free()
        if not free:
            return
        if not self._may_begin():
            self._stop.wait(_WAIT_SECONDS)
            return
        with self._changed:
            self._taking = not self._stop.requested
        if not self._taking:
            return
        try:
            received = self._consumer.receive(free=free, timeout=_WAIT_SECONDS)
            for group in self._groups([self._holdings.get(work) for work in received]):
                self._begin(group)
        finally:
            with self._changed:
                self._taking = False
                self._changed.notify_all()

    def _await_free(self) -> int:
        """Return how many free threads to receive for; what is received may be twice as many."""
        with self._changed:
            self._look_ahead()
            if not self._changed.wait_for(self._has_room, timeout=_WAIT_SECONDS):
                return 0
            if self._in_hand:
                self._changed.wait_for(lambda: self._in_hand == 0, timeout=_COMPANY_SECONDS)
            free = len(self._threads) - self._in_hand
            return max(free, -(-(free + self._ahead) // 2), 0)

    def _look_ahead(self) -> None:
        seconds = monotonic() - self._since
        if seconds >= _AHEAD_SECONDS:
            soon = int(self._ended_since * _AHEAD_SECONDS / seconds)
            self._ahead = min(soon, len(self._threads))
            self._ended_since, self._since = 0, self._since + seconds

    def _has_room(self) -> bool:
        return self._in_hand < len(self._threads) + self._ahead // 2

    def _groups(self, received: Sequence[Held]) -> list[Sequence[Held]]:
        """Return what begins together; what lost a worker comes last and alone."""
        joining: list[Held] = []
        alone: list[Held] = []
        for held in received:
            joins = not held.work.worker_losses and self._joins(held)
            (joining if joins else alone).append(held)
        alone.sort(key=lambda held: held.work.worker_losses)
        groups = (joining[at : at + _TOGETHER] for at in range(0, len(joining), _TOGETHER))
        return [*groups, *([held] for held in alone)]

    def _begin(self, group: Sequence[Held]) -> None:
        is_suspect = any(held.work.worker_losses >= _SUSPECT_LOSSES for held in group)
        if is_suspect:
            self._await_none()
        self._put(group)
        if is_suspect:
            self._await_none()

    def _await_none(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._in_hand == 0 or self._stop.requested)

    def _put(self, group: Sequence[Held]) -> None:
        with self._changed:
            if not self._stop.requested:
                self._in_hand += len(group)
                self._waiting.put(group)
                return
        self._hand_back(group)

    def _hand_back_waiting(self) -> None:
        with self._changed:
            waiting = _emptied(self._waiting)
            self._in_hand -= len(waiting)
            self._changed.notify_all()
        self._hand_back(waiting)

    def _hand_back(self, group: Sequence[Held]) -> None:
        for held in group:
            # At its first start there is no earlier call that an intent could stand for.
            step = HandBack(work=held.work, is_unsent=held.work.starts == 1)
            self._committer.submit(step, awaited=False)
            self._holdings.drop(held)

    def _work(self) -> None:
        while group := self._waiting.get():
            left: Sequence[Held] = ()
            try:
                if len(group) > 1:
                    left = self._execute_together(group)
                else:
                    self._execute(group[0])
            finally:
                self._ended(len(group))
            for held in left:
                self._put([held])

    def _ended(self, count: int) -> None:
        with self._changed:
            had_room = self._has_room()
            self._in_hand -= count
            self._ended_since += count
            # Whoever waits does so for room, or for all threads.
            if self._in_hand == 0 or (self._has_room() and not had_room):
                self._changed.notify_all()


def _emptied(waiting: "SimpleQueue[Sequence[Held]]") -> list[Held]:
    found: list[Held] = []
    with suppress(Empty):
        while group := waiting.get_nowait():
            found += group
    return found
