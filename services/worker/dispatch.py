"""From claimed work to threads: no more than can start soon; what did not begin is handed back."""

import threading
from collections.abc import Callable
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
    ) -> None:
        self._consumer = consumer
        self._execute = execute
        self._holdings = holdings
        self._committer = committer
        self._may_begin = may_begin
        self._stop = Stop()
        self._waiting: SimpleQueue[Held | None] = SimpleQueue()
        self._changed = threading.Condition()  # guards what follows
        self._in_hand = 0
        self._taking = False
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
            self._waiting.put(None)
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
            for work in sorted(received, key=lambda work: work.worker_losses):
                self._begin(self._holdings.get(work))
        finally:
            with self._changed:
                self._taking = False
                self._changed.notify_all()

    def _await_free(self) -> int:
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._in_hand < len(self._threads), timeout=_WAIT_SECONDS
            ):
                return 0
            if self._in_hand:
                self._changed.wait_for(lambda: self._in_hand == 0, timeout=_COMPANY_SECONDS)
            return max(len(self._threads) - self._in_hand, 0)

    def _begin(self, held: Held) -> None:
        is_suspect = held.work.worker_losses >= _SUSPECT_LOSSES
        if is_suspect:
            self._await_none()
        self._put(held)
        if is_suspect:
            self._await_none()

    def _await_none(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._in_hand == 0 or self._stop.requested)

    def _put(self, held: Held) -> None:
        with self._changed:
            if not self._stop.requested:
                self._in_hand += 1
                self._waiting.put(held)
                return
        self._hand_back(held)

    def _hand_back_waiting(self) -> None:
        with self._changed:
            waiting = _emptied(self._waiting)
            self._in_hand -= len(waiting)
            self._changed.notify_all()
        for held in waiting:
            self._hand_back(held)

    def _hand_back(self, held: Held) -> None:
        self._committer.submit(HandBack(work=held.work))
        self._holdings.drop(held)

    def _work(self) -> None:
        while held := self._waiting.get():
            try:
                self._execute(held)
            finally:
                with self._changed:
                    self._in_hand -= 1
                    self._changed.notify_all()


def _emptied(waiting: "SimpleQueue[Held | None]") -> list[Held]:
    found = []
    with suppress(Empty):
        while held := waiting.get_nowait():
            found.append(held)
    return found
