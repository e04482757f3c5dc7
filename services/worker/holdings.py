"""What this worker holds, each with the end of its lease on this process's monotonic clock."""

import threading
from collections.abc import Mapping
from uuid import UUID

from shared.domain.work import Claimed, ReferenceKind
from shared.lifecycle import monotonic

# Between the end of an action and the end of the lease there must be time to write the receipt.
_MARGIN_SECONDS = 5.0

_Key = tuple[ReferenceKind, int, UUID]


class Held:
    """Work under this worker's lease; ``fenced`` once somebody else has taken it.

    ``since`` is when it came into this worker's hands, ``begun``: a thread has taken it.
    """

    __slots__ = ("begun", "fenced", "since", "until", "work")

    def __init__(self, work: Claimed, *, until: float) -> None:
        self.work = work
        self.until = until
        self.since = monotonic()
        self.fenced = False
        self.begun = False

    def has_time_for(self, seconds: float) -> bool:
        """Whether an action of at most ``seconds`` can end, and be written, within the lease."""
        return not self.fenced and self.until - monotonic() >= seconds + _MARGIN_SECONDS


class Holdings:
    """All that the worker holds just now; used by the intake, the pool and the renewal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[_Key, Held] = {}

    def add(self, held: Held) -> None:
        """Take one in."""
        with self._lock:
            self._held[_key(held.work)] = held

    def get(self, work: Claimed) -> Held:
        """Return what is held of work that was just claimed. Raises KeyError if it is not held."""
        with self._lock:
            return self._held[_key(work)]

    def drop(self, held: Held) -> None:
        """Let one go: its end is written, or somebody else has it.

        A change may have been offered again meanwhile: that offer stays.
        """
        with self._lock:
            if self._held.get(_key(held.work)) is held:
                del self._held[_key(held.work)]

    def all(self) -> list[Held]:
        """Return what is held, in no order."""
        with self._lock:
            return list(self._held.values())

    def longest_unstarted(self) -> float:
        """Return for how many seconds the oldest claim has waited for a thread; 0 without one."""
        since = min((held.since for held in self.all() if not held.begun), default=None)
        return 0.0 if since is None else monotonic() - since

    def renewed(
        self, asked: list[Held], *, leases: Mapping[tuple[int, UUID], bool], until: float
    ) -> list[Held]:
        """Extend what was renewed of what was asked for, and fence what is held no longer.

        It is all of one kind. ``leases`` are those still held, by id and token, and whether they
        were renewed. Return what was fenced. One that was let go while the renewal was under way is
        neither.
        """
        fenced = []
        with self._lock:
            for held in asked:
                lease = held.work.id, held.work.lease_token
                if leases.get(lease):
                    held.until = until
                elif lease not in leases and _key(held.work) in self._held:
                    held.fenced = True
                    fenced.append(held)
        return fenced


def _key(work: Claimed) -> _Key:
    return work.work_kind, work.id, work.lease_token
