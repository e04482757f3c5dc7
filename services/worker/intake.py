"""Claims: what this worker takes from the rows that are due, under a lease of its own."""

import uuid
from collections.abc import Callable, Sequence

import psycopg
from psycopg import Connection

from services.worker.holdings import Held, Holdings
from shared.domain.runs import ClaimedRun
from shared.domain.work import Reference
from shared.lifecycle import monotonic
from shared.queries import claims


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

    def claim(self, references: Sequence[Reference]) -> list[ClaimedRun]:
        """Claim what the references name; the others were taken, moved on, or are not due."""
        begun = monotonic()
        runs = self._try(
            lambda conn: claims.claim(
                conn,
                references,
                worker_id=self._worker_id,
                lease_token=uuid.uuid4(),
                lease_seconds=self._lease_seconds,
            )
        )
        return self._hold(runs, begun)

    def claim_due(self, *, limit: int, fairly: bool) -> list[ClaimedRun]:
        """Claim up to ``limit`` due runs, the oldest, or in turns over the tenants."""
        begun = monotonic()
        runs = self._try(
            lambda conn: claims.claim_due(
                conn,
                limit=limit,
                after=uuid.uuid4() if fairly else None,
                worker_id=self._worker_id,
                lease_token=uuid.uuid4(),
                lease_seconds=self._lease_seconds,
            )
        )
        return self._hold(runs, begun)

    def close(self) -> None:
        """Close the session."""
        if self._conn:
            self._conn.close()

    def _try(self, claim: Callable[[Connection], list[ClaimedRun]]) -> list[ClaimedRun]:
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        try:
            return claim(self._conn)
        except psycopg.OperationalError:
            self._conn.close()
            raise

    def _hold(self, runs: list[ClaimedRun], begun: float) -> list[ClaimedRun]:
        # The lease counts from before the claim was sent: its answer may have been late.
        for run in runs:
            self._holdings.add(Held(run, until=begun + self._lease_seconds))
        return runs
