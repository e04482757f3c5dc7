"""The keys that sign a tenant's webhooks, asked for once a second and not for each of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.lifecycle import monotonic
from shared.queries.tenants import list_signing_secrets

# A new key signs beside the older ones for a day: a second late, nothing is signed wrongly.
_FRESH_SECONDS = 1.0
_TENANTS = 1000


class SigningKeys:
    """What was read of late; one for all threads of a process."""

    def __init__(self, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._fresh_seconds = fresh_seconds
        self._known: dict[UUID, tuple[float, list[bytes]]] = {}

    def of(
        self,
        tenant_id: UUID,
        *,
        connect: Callable[[], AbstractContextManager[Connection]],
        now: datetime,
    ) -> list[bytes]:
        """Return the secrets that sign at ``now``, the newest first; empty when there is none."""
        since, secrets = self._known.get(tenant_id, (0.0, []))
        if secrets and monotonic() - since < self._fresh_seconds:
            return secrets
        since = monotonic()
        with connect() as conn:
            secrets = list_signing_secrets(conn, tenant_id, now=now)
        if len(self._known) >= _TENANTS:
            self._known.clear()
        self._known[tenant_id] = (since, secrets)
        return secrets
