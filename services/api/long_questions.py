"""Questions that read whole tables: few at a time, so that sessions are left to everybody else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from services.api.problems import RateExceeded
from shared.observability import metrics

_RETRY_AFTER_SECONDS = 5


class LongQuestions:
    """One of a tenant at a time, and of all tenants at most ``most``, in this process.

    Nobody waits for a turn, since they would do so with a session in their hands.
    """

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._asking: set[UUID] = set()

    @contextmanager
    def turn(self, tenant_id: UUID) -> Iterator[None]:
        """Run the block as a tenant's question; raises RateExceeded ``questions_too_many``."""
        with self._lock:
            if tenant_id in self._asking or len(self._asking) >= self._most:
                raise _too_many()
            self._asking.add(tenant_id)
        try:
            yield
        finally:
            with self._lock:
                self._asking.discard(tenant_id)


def _too_many() -> RateExceeded:
    metrics.REQUESTS_LIMITED.labels("questions").inc()
    return RateExceeded(
        "other questions that read whole tables are being answered;"
        f" try again in {_RETRY_AFTER_SECONDS} s",
        code="questions_too_many",
        retry_after_seconds=_RETRY_AFTER_SECONDS,
    )
