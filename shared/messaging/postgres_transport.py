"""The transport without a broker: the table of runs is the queue, NOTIFY the wake-up.

There is no publisher: who writes a row that can be worked on notifies in its transaction.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from psycopg import Connection

from shared.db.clock import server_now
from shared.db.listener import Listener
from shared.domain.runs import ClaimedRun
from shared.lifecycle import Stop
from shared.messaging.ports import Claimer
from shared.queries.announcements import next_announcement_at

# When something is due and yet not to be had, because another worker is just taking it.
_SHORTEST_PAUSE_SECONDS = 0.02
_STOP_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class _Lane:
    """``backlog``: there was more than the last claim took."""

    urgent: bool
    backlog: bool = False


class PostgresConsumer:
    """A worker's consumer; ``receive`` is called by one thread."""

    def __init__(self, open_session: Callable[[], Connection], *, claimer: Claimer) -> None:
        """``open_session`` returns a direct session that listens for work."""
        self._listener = Listener(open_session)
        self._claimer = claimer
        self._lanes = deque([_Lane(urgent=False), _Lane(urgent=True)])
        self._stop = Stop()
        self._receiving = threading.Lock()

    def ready(self) -> bool:
        """Return whether work can arrive at this moment."""
        return not self._stop.requested

    def receive(self, *, free: int, timeout: float) -> list[ClaimedRun]:
        """Return claimed runs, at most twice ``free``, waiting up to ``timeout`` seconds."""
        with self._receiving:
            if self._stop.requested:
                return []
            if claimed := self._claim(2 * free):
                return claimed
            self._listener.wait(self._pause(timeout), wake=self._stop)
            return [] if self._stop.requested else self._claim(2 * free)

    def stop(self) -> None:
        """Take nothing any more; a waiting ``receive`` ends."""
        self._stop.request()
        # A claim that the database does not answer keeps its sessions: they end with the process.
        if self._receiving.acquire(timeout=_STOP_SECONDS):
            self._listener.close()
            self._receiving.release()

    def _claim(self, limit: int) -> list[ClaimedRun]:
        """Take what is urgent and what is not, each in turn first: neither waits for all others.

        The oldest; when there were more than one claim takes, each tenant in turn.
        """
        self._lanes.rotate()
        claimed: list[ClaimedRun] = []
        for lane in self._lanes:
            wanted = limit - len(claimed)
            if not wanted:
                break
            try:
                found = self._claimer.claim_due(
                    urgent=lane.urgent, limit=wanted, fairly=lane.backlog
                )
            except Exception:
                if claimed:  # these are held: whoever asks next is told
                    break
                raise
            lane.backlog = len(found) == wanted
            claimed += found
        return claimed

    def _pause(self, timeout: float) -> float:
        conn = self._listener.session()
        due_at = next_announcement_at(conn)
        if due_at is None:
            return timeout
        seconds = (due_at - server_now(conn)).total_seconds()
        return min(timeout, max(seconds, _SHORTEST_PAUSE_SECONDS))
