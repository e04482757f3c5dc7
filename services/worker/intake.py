"""Claims: what this worker takes from the rows that are due, under a lease of its own."""

from collections.abc import Callable, Sequence
from uuid import UUID, uuid4

from psycopg import Connection

from services.worker.holdings import Held, Holdings
from shared.domain.runs import ClaimedRun
from shared.domain.work import Reference
from shared.lifecycle import monotonic
from shared.queries import claims, work


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
    ) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._worker_id = worker_id
        self._holdings = holdings
        self._lease_seconds = lease_seconds
        self._unanswered: set[UUID] = set()

    def claim(self, references: Sequence[Reference]) -> list[ClaimedRun]:
        """Claim what the references name; the others were taken, moved on, or are not due."""
        return self._claim(
            lambda conn, token: claims.claim(
                conn,
                references,
                worker_id=self._worker_id,
                lease_token=token,
                lease_seconds=self._lease_seconds,
            )
        )

    def claim_due(self, *, urgent: bool, limit: int, fairly: bool) -> list[ClaimedRun]:
        """Claim up to ``limit`` due runs, the oldest, or in turns over the tenants.

        Those that are ``urgent``, or the others.
        """
        return self._claim(
            lambda conn, token: claims.claim_due(
                conn,
                urgent=urgent,
                limit=limit,
                after=uuid4() if fairly else None,
                worker_id=self._worker_id,
                lease_token=token,
                lease_seconds=self._lease_seconds,
            )
        )

    def close(self) -> None:
        """Close the session."""
        if self._conn:
            self._conn.close()

    def _claim(self, claim: Callable[[Connection, UUID], list[ClaimedRun]]) -> list[ClaimedRun]:
        token = uuid4()
        conn = self._session()
        # The lease counts from before the claim was sent: its answer may have been late.
        until = monotonic() + self._lease_seconds
        try:
            runs = claim(conn, token)
        except Exception:
            self._unanswered.add(token)
            conn.close()
            raise
        for run in runs:
            self._holdings.add(Held(run, until=until))
        return runs

    def _session(self) -> Connection:
        """Return the session; first of all, give back what an unanswered claim may have taken."""
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        for token in list(self._unanswered):
            ids = work.list_held(self._conn, worker_id=self._worker_id, lease_token=token)
            work.hand_back(self._conn, [(run_id, token) for run_id in ids])
            self._unanswered.discard(token)
        return self._conn
