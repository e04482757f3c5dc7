"""From claimed runs to threads: no more than can start soon; what did not begin is handed back."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import structlog

from services.worker.committer import Committer, HandBack
from services.worker.holdings import Held, Holdings
from shared.lifecycle import Stop, backoff_seconds, monotonic
from shared.messaging.ports import Consumer

_log = structlog.get_logger()
_WAIT_SECONDS = 1.0
# Once a thread is free, wait this long for others: claims of one cost more than the work.
_COMPANY_SECONDS = 0.002


class Dispatcher:
    """The loop that receives claimed runs and gives them to a bounded pool of threads."""

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
        self._threads = threads
        self._may_begin = may_begin
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="action")
        self._freed = threading.Condition()
        self._in_hand = 0
        self._draining = False

    def run(self, stop: Stop) -> None:
        """Receive and dispatch until a stop is asked for."""
        failures = 0
        while not stop.requested:
            try:
                self._take(stop)
                failures = 0
            except psycopg.Error as error:
                failures += 1
                _log.warning("intake_failed", reason=str(error), failures=failures)
                stop.wait(backoff_seconds(failures, limit=5.0))

    def drain(self, *, seconds: float) -> bool:
        """Let what runs end, hand back what did not begin; True when all ended in ``seconds``."""
        self._draining = True
        deadline = monotonic() + seconds
        with self._freed:
            ended = self._freed.wait_for(
                lambda: self._in_hand == 0, timeout=max(deadline - monotonic(), 0)
            )
        self._pool.shutdown(wait=ended, cancel_futures=True)
        return ended

    def _take(self, stop: Stop) -> None:
        free = self._await_free()
        if not free or not self._may_begin():
            stop.wait(_WAIT_SECONDS if free else 0)
            return
        received = self._consumer.receive(free=free, timeout=_WAIT_SECONDS)
        with self._freed:
            self._in_hand += len(received)
        for run in received:
            self._pool.submit(self._run_one, self._holdings.get(run))

    def _await_free(self) -> int:
        with self._freed:
            if not self._freed.wait_for(
                lambda: self._in_hand < self._threads, timeout=_WAIT_SECONDS
            ):
                return 0
            if self._in_hand:
                self._freed.wait_for(lambda: self._in_hand == 0, timeout=_COMPANY_SECONDS)
            return max(self._threads - self._in_hand, 0)

    def _run_one(self, held: Held) -> None:
        try:
            if self._draining:
                self._committer.submit(HandBack(run=held.run))
                self._holdings.drop(held)
            else:
                self._execute(held)
        finally:
            with self._freed:
                self._in_hand -= 1
                self._freed.notify()
