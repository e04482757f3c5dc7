"""A session that row level security lets see the rows of one tenant, and that waits not for ever.

The tenant is told anew in each transaction, for that transaction alone: a session that a pooler
hands to somebody else between two transactions carries nobody's tenant with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection, OperationalError, Transaction
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import RowFactory, tuple_row

from shared.lifecycle import monotonic

_TELL = "SELECT set_config('duebook.tenant', %s, true)"
_LOOK_SECONDS = 0.1

Answer = TypeVar("Answer")


class TenantSession(Connection):
    """A session whose outermost transactions begin with its tenant.

    Statements in no transaction have none: of the tables of tenants they see no row.
    """

    _tenant_id: UUID | None = None

    patience_seconds: float | None = None
    """How long an answer may take until the session counts as lost; None: as long as it likes.

    The limits of the server are of no use when it, or what stands before it, is silent while the
    network acknowledges what we send.
    """

    def __init__(self, pgconn: PGconn, row_factory: RowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self._opened_at = monotonic()

    @property
    def age_seconds(self) -> float:
        """How long it has been open, by the clock of this process."""
        return monotonic() - self._opened_at

    def wait(
        self,
        gen: PQGen[Answer],
        interval: float = _LOOK_SECONDS,
        timeout: float | None = None,
    ) -> Answer:
        """Wait as psycopg does; end the session when the server is silent for too long."""
        patience = self.patience_seconds
        if timeout is not None or patience is None:
            return super().wait(gen, interval, timeout)
        began_at = monotonic()
        try:
            return super().wait(gen, interval, patience)
        except OperationalError as error:
            # Nothing that the driver shows tells the end of a wait from other losses but the time.
            if monotonic() - began_at < patience:
                raise
            self.pgconn.finish()
            raise OperationalError(f"the server has not answered for {patience:.0f} s") from error

    def bind(self, tenant_id: UUID | None) -> None:
        """Act in this tenant, or in none, from now on, in the open transaction too."""
        if tenant_id == self._tenant_id:
            return
        self._tenant_id = tenant_id
        if not self._is_idle():
            self._tell()

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[Transaction]:
        """Run the block in a transaction, as psycopg does, in the session's tenant."""
        is_outermost = self._is_idle()
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if is_outermost and self._tenant_id is not None:
                self._tell()
            yield transaction

    def _is_idle(self) -> bool:
        return self.info.transaction_status == TransactionStatus.IDLE

    def _tell(self) -> None:
        self.execute(_TELL, ["" if self._tenant_id is None else str(self._tenant_id)])
