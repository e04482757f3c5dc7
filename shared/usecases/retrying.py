"""What a failure means for the transaction it happens in: begin again, or go on without a part."""

from collections.abc import Callable
from typing import TypeVar

from psycopg import Connection, OperationalError
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg.pq import TransactionStatus

RETRIES = 3

T = TypeVar("T")


def retried(transaction: Callable[[], T]) -> T:
    """Return what a whole transaction returns, begun again up to three times if PostgreSQL asks.

    At once: the server has waited a second before it chose whom of a deadlock to send away, and
    the other has gone on meanwhile.
    """
    for _ in range(RETRIES):
        try:
            return transaction()
        except (DeadlockDetected, SerializationFailure):
            continue
    return transaction()


def concerns_whole(conn: Connection, error: Exception) -> bool:
    """Tell whether a failure is the whole transaction's: it is to be raised.

    A lock not to be had, a full disk, a lost session are no fault of the row, trigger or table at
    hand, and pass: nothing may be set aside for them. Nor can a transaction go on that no savepoint
    has saved.
    """
    is_aborted = conn.info.transaction_status == TransactionStatus.INERROR
    return is_aborted or isinstance(error, OperationalError)
