"""The keys that sign a tenant's webhooks, asked for once a second and not for each of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.actions.failures import ActionFailed
from shared.errors import Unavailable
from shared.lifecycle import monotonic
from shared.queries.tenants import list_signing_secrets
from shared.sealing import Sealed, Sealer

# A new key signs beside the older ones for a day: a second late, nothing is signed wrongly.
_FRESH_SECONDS = 1.0
_TENANTS = 1000


class SigningKeys:
    """What was read of late; one for all threads of a process.

    ``sealer`` reads what is stored; without one, what is stored in the clear.
    """

    def __init__(
        self, sealer: Sealer | None = None, *, fresh_seconds: float = _FRESH_SECONDS
    ) -> None:
        self._sealer = sealer or Sealer()
        self._fresh_seconds = fresh_seconds
        self._known: dict[UUID, tuple[float, list[bytes]]] = {}

    def of(
        self,
        tenant_id: UUID,
        *,
        connect: Callable[[], AbstractContextManager[Connection]],
        now: datetime,
    ) -> list[bytes]:
        """Return the secrets that sign at ``now``, the newest first; empty when there is none.

        Raises ActionFailed when the newest is encrypted under a key that is not here: for now,
        since another worker may have it, or this one after its next start. Older ones of which that
        is true are left out: so a tenant that made a new key goes on where a key was lost.
        """
        since, secrets = self._known.get(tenant_id, (0.0, []))
        if secrets and monotonic() - since < self._fresh_seconds:
            return secrets
        since = monotonic()
        with connect() as conn:
            stored = list_signing_secrets(conn, tenant_id, now=now)
        secrets = self._opened(stored)
        if len(self._known) >= _TENANTS:
            self._known.clear()
        self._known[tenant_id] = (since, secrets)
        return secrets

    def _opened(self, stored: list[Sealed]) -> list[bytes]:
        secrets: list[bytes] = []
        for sealed in stored:
            try:
                secrets.append(self._sealer.open(sealed))
            except Unavailable as error:
                if not secrets:
                    detail = f"the signing key cannot be read: {error.message}"
                    raise ActionFailed(detail, transient=True) from error
        return secrets
