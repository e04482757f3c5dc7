"""Claims: what this worker takes from the rows that are due, under a lease of its own."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypedDict
from uuid import UUID, uuid4

import structlog
from psycopg import Connection

from services.worker.holdings import Held, Holdings
from shared.domain.staged_changes import ApprovedChange
from shared.domain.work import Claimed, Reference, ReferenceKind, WorkKind
from shared.lifecycle import monotonic, pause
from shared.queries import approved_changes, claimed_actions, claims, scheduled_actions, work

# Whoever looks for due rows keeps those locked, to its commit, that another one has just announced:
# a reference may come while its row is passed over, and would wait for its next announcement.
_LOCKED_PAUSES = (0.005, 0.02, 0.1)

_log = structlog.get_logger()


class _Lease(TypedDict):
    worker_id: int
    lease_token: UUID
    lease_seconds: float
    external_types: Sequence[str]


class _ClaimOffered(Protocol):
    def __call__(
        self, conn: Connection, references: Sequence[Reference], lease: _Lease
    ) -> Sequence[Claimed]: ...


class Claimer:
    """Claims on a session of its own; what it returns is committed and held.

    Used by one thread at a time. Raises ``psycopg.Error`` while the database is away.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        worker_id: int,
        holdings: Holdings,
        lease_seconds: int,
        external_types: Sequence[str] = (),
    ) -> None:
        """``external_types``: actions of these begin with an intent, noted by the claim itself."""
        self._connect = connect
        self._conn: Connection | None = None
        self._worker_id = worker_id
        self._holdings = holdings
        self._lease_seconds = lease_seconds
        self._external_types = external_types
        self._unanswered: set[tuple[WorkKind, UUID]] = set()

    def claim(self, kind: ReferenceKind, references: Sequence[Reference]) -> list[Claimed]:
        """Claim what the references name; the others were taken, moved on, or are not due.

        Changes are not claimed: whoever applies one locks it then.
        """
        if kind == "staged_change":
            return self._offer(lambda conn: approved_changes.list_approved(conn, references))

        def runs(
            conn: Connection, references: Sequence[Reference], lease: _Lease
        ) -> Sequence[Claimed]:
            return claims.claim(conn, references, **lease)

        def actions(
            conn: Connection, references: Sequence[Reference], lease: _Lease
        ) -> Sequence[Claimed]:
            return _decided(conn, claims.claim_actions(conn, references, **lease), lease)

        return self._claim_offered(kind, references, runs if kind == "trigger_run" else actions)

    def claim_due(
        self, *, kind: ReferenceKind, urgent: bool, limit: int, fairly: bool
    ) -> list[Claimed]:
        """Claim up to ``limit`` due rows of a kind, the oldest, or in turns over the tenants.

        Those that are ``urgent``, or the others.
        """
        after = uuid4() if fairly else None
        if kind == "staged_change":
            return self._offer(lambda conn: _announced_changes(conn, limit=limit, after=after))

        def runs(conn: Connection, lease: _Lease) -> Sequence[Claimed]:
            return claims.claim_due(conn, urgent=urgent, limit=limit, after=after, **lease)

        def actions(conn: Connection, lease: _Lease) -> Sequence[Claimed]:
            ids = claims.claim_due_actions(conn, urgent=urgent, limit=limit, after=after, **lease)
            return _decided(conn, ids, lease)

        return self._claim(kind, runs if kind == "trigger_run" else actions)

    def close(self) -> None:
        """Close the session."""
        if self._conn:
            self._conn.close()

    def _claim_offered(
        self, kind: WorkKind, references: Sequence[Reference], claim: _ClaimOffered
    ) -> list[Claimed]:
        """Claim references, and once more those whose rows were only locked for a moment."""

        def take(references: Sequence[Reference]) -> list[Claimed]:
            return self._claim(kind, lambda conn, lease: claim(conn, references, lease))

        claimed = take(references)
        for seconds in _LOCKED_PAUSES:
            if len(claimed) == len(references):
                break
            try:
                known = {one.id for one in claimed}
                missed = [reference for reference in references if reference.id not in known]
                locked = claims.list_offered(self._session(), missed, kind=kind)
                if not locked:
                    break
                pause(seconds)
                claimed += take(locked)
            except Exception as error:  # what is held already must get to its threads
                _log.warning("locked_not_claimed", reason=str(error))
                break
        return claimed

    def _claim(
        self, kind: WorkKind, claim: Callable[[Connection, _Lease], Sequence[Claimed]]
    ) -> list[Claimed]:
        lease = _Lease(
            worker_id=self._worker_id,
            lease_token=uuid4(),
            lease_seconds=self._lease_seconds,
            external_types=self._external_types,
        )
        conn = self._session()
        # The lease counts from before the claim was sent: its answer may have been late.
        until = monotonic() + self._lease_seconds
        try:
            claimed = claim(conn, lease)
        except Exception:
            self._unanswered.add((kind, lease["lease_token"]))
            conn.close()
            raise
        for one in claimed:
            self._holdings.add(Held(one, until=until))
        return list(claimed)

    def _offer(self, find: Callable[[Connection], Sequence[ApprovedChange]]) -> list[Claimed]:
        """Return changes that may be applied; unanswered, their age brings them again."""
        conn = self._session()
        try:
            found = find(conn)
        except Exception:
            conn.close()
            raise
        for one in found:
            self._holdings.add(Held(one, until=monotonic() + self._lease_seconds))
        return list(found)

    def _session(self) -> Connection:
        """Return the session; first of all, give back what an unanswered claim may have taken."""
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        for kind, token in list(self._unanswered):
            ids = work.list_held(
                self._conn, kind=kind, worker_id=self._worker_id, lease_token=token
            )
            work.hand_back(self._conn, [(id, token) for id in ids], kind=kind)
            self._unanswered.discard((kind, token))
        return self._conn


def _announced_changes(
    conn: Connection, *, limit: int, after: UUID | None
) -> Sequence[ApprovedChange]:
    announced = approved_changes.announce_changes(conn, limit=limit, after=after)
    references = [Reference(id=row.id, token=row.token) for row in announced]
    return approved_changes.list_approved(conn, references) if references else []


def _decided(conn: Connection, ids: Sequence[int], lease: _Lease) -> Sequence[Claimed]:
    """Return claimed actions as they are now, the waits among them decided.

    The session commits each statement by itself: the claim is committed, and whoever decides sees
    every click that was there when the claim read the clock.
    """
    if not ids:
        return []
    token = lease["lease_token"]
    scheduled_actions.decide_branches(conn, [(id, token) for id in ids])
    return claimed_actions.load_claimed(conn, ids, lease_token=token)
