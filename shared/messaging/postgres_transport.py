"""The transport without a broker: the tables of work are the queue, NOTIFY the wake-up.

There is no publisher: who writes a row that can be worked on notifies in its transaction.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psycopg import Connection, OperationalError

from shared.db.listener import Listener
from shared.domain.work import Claimed, ReferenceKind
from shared.lifecycle import Stop
from shared.messaging.ports import Claimer
from shared.queries.announcements import Wait, list_waits

# When something is due and yet not to be had, because another worker is just taking it.
_SHORTEST_PAUSE_SECONDS = 0.02
_STOP_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class _Lane:
    """``backlog``: there was more than the last claim took."""

    kind: ReferenceKind
    urgent: bool
    backlog: bool = False


_LANES: Sequence[tuple[ReferenceKind, bool]] = (
    ("trigger_run", False),
    ("scheduled_action", False),
    ("scheduled_action", True),
    ("staged_change", True),
    ("trigger_run", True),
)


class PostgresConsumer:
    """A worker's consumer; ``receive`` is called by one thread."""

    def __init__(self, open_session: Callable[[], Connection], *, claimer: Claimer) -> None:
        """``open_session`` returns a direct session that listens for work."""
        self._listener = Listener(open_session)
        self._claimer = claimer
        self._lanes = [_Lane(kind=kind, urgent=urgent) for kind, urgent in _LANES]
        self._turns = 0
        self._stop = Stop()
        self._receiving = threading.Lock()

    def ready(self) -> bool:
        """Return whether work can arrive at this moment."""
        return not self._stop.requested

    def receive(self, *, free: int, timeout: float) -> Sequence[Claimed]:
        """Return claimed work, at most twice ``free``, waiting up to ``timeout`` seconds."""
        with self._receiving:
            if self._stop.requested:
                return []
            waits = self._look()
            if claimed := self._claim(waits, 2 * free):
                return claimed
            self._listener.wait(_pause(waits, timeout), wake=self._stop)
            return [] if self._stop.requested else self._claim(self._look(), 2 * free)

    def stop(self) -> None:
        """Take nothing any more; a waiting ``receive`` ends."""
        self._stop.request()
        # A claim that the database does not answer keeps its sessions: they end with the process.
        if self._receiving.acquire(timeout=_STOP_SECONDS):
            self._listener.close()
            self._receiving.release()

    def _look(self) -> list[Wait]:
        """Return when there is something to claim; a session that was lost is opened again."""
        try:
            return list_waits(self._listener.session())
        except OperationalError:
            self._listener.close()
            return list_waits(self._listener.session())

    def _claim(self, waits: Sequence[Wait], limit: int) -> list[Claimed]:
        """Take of each kind what is urgent and what is not, as far as anything is due.

        Each has a share in every claim, so that none waits for all others: those that are soon
        through come first, and leave what they did not use. The oldest; when there were more than
        one claim takes, each tenant in turn.
        """
        lanes = self._take_turn({(wait.kind, wait.urgent) for wait in waits if wait.seconds <= 0})
        claimed: list[Claimed] = []
        for number, lane in enumerate(lanes):
            wanted = -(-(limit - len(claimed)) // (len(lanes) - number))
            if not wanted:
                break
            try:
                found = self._claimer.claim_due(
                    kind=lane.kind, urgent=lane.urgent, limit=wanted, fairly=lane.backlog
                )
            except Exception:
                if claimed:  # these are held: whoever asks next is told
                    break
                raise
            lane.backlog = len(found) == wanted
            claimed += found
        return claimed

    def _take_turn(self, due: set[tuple[ReferenceKind, bool]]) -> list[_Lane]:
        """Return the lanes that have something due, without a backlog first; others each time."""
        lanes = [lane for lane in self._lanes if (lane.kind, lane.urgent) in due]
        first = self._turns % max(len(lanes), 1)
        self._turns += 1
        return sorted(lanes[first:] + lanes[:first], key=lambda lane: lane.backlog)


def _pause(waits: Sequence[Wait], timeout: float) -> float:
    seconds = min((wait.seconds for wait in waits), default=timeout)
    return min(timeout, max(seconds, _SHORTEST_PAUSE_SECONDS))
