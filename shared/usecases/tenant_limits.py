"""How much a tenant may have: one tenant must hurt only itself (docs/limits.md)."""

import threading
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.errors import Conflict
from shared.lifecycle import monotonic
from shared.queries.tenant_counts import Counted, count_of_tenant, count_pending_actions
from shared.queries.tenants import lock_tenant

# Counting a million rows takes a good part of a second: nobody pays that for each event.
_LOOK_SECONDS = 10.0
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimit:
    """So many of something, which is called ``noun``; what is beyond is a Conflict of its code."""

    counted: Counted
    noun: str
    most: int

    @property
    def reached(self) -> Conflict:
        """The refusal of one more."""
        message = f"the tenant has {self.most} {self.noun}, which is the limit"
        return Conflict(message, code=f"{self.counted}_too_many")


TABLES = TenantLimit(counted="tables", noun="tables", most=1000)
TRIGGERS = TenantLimit(counted="triggers", noun="triggers on its tables", most=10_000)
RULES = TenantLimit(counted="trigger_rules", noun="rules", most=1000)
COMMANDS = TenantLimit(counted="commands", noun="commands", most=500)
SECRETS = TenantLimit(counted="secrets", noun="secrets", most=200)
TOKENS = TenantLimit(counted="tokens", noun="tokens that are not revoked", most=1000)
# Each signs every webhook: a header of hundreds of signatures nobody would take.
SIGNING_KEYS = TenantLimit(counted="signing_keys", noun="valid signing keys", most=10)


def check_room(conn: Connection, tenant_id: UUID, limit: TenantLimit, *, now: datetime) -> None:
    """Lock the tenant, so that nobody else makes one meanwhile, and see that one more may be.

    In the transaction that makes it. Raises Conflict with the code of the limit, NotFound
    ``tenant_not_found``.
    """
    lock_tenant(conn, tenant_id)
    if count_of_tenant(conn, tenant_id, limit.counted, now=now) >= limit.most:
        raise limit.reached


def check_trigger_room(
    conn: Connection, tenant_id: UUID, *, before: int, after: int, now: datetime
) -> None:
    """See that a list of ``before`` triggers may grow to ``after``; one that shrinks always may.

    Nothing is locked, since the table is: two saves at the same moment see only their own.
    """
    if after <= before:
        return
    found = count_of_tenant(conn, tenant_id, TRIGGERS.counted, now=now)
    if found + after - before > TRIGGERS.most:
        raise TRIGGERS.reached


class WaitingLimit:
    """How many scheduled actions of a tenant may be pending before it can add no more by hand.

    Each process looks once in ten seconds: what comes in between is let through, or refused, by
    what it saw then. Runs and executions under way are never held up: what they lead to is theirs.
    """

    def __init__(self, most: int = 1_000_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._seen: dict[UUID, tuple[bool, float]] = {}

    def check(self, conn: Connection, tenant_id: UUID) -> None:
        """Raise Conflict ``scheduled_actions_too_many`` when the tenant has as many as it may."""
        is_full, looked_at = self._seen.get(tenant_id, (False, None))
        now = monotonic()
        if looked_at is None or now - looked_at >= _LOOK_SECONDS:
            is_full = count_pending_actions(conn, tenant_id, limit=self._most) >= self._most
            self._remember(tenant_id, is_full, now)
        if is_full:
            message = f"{self._most} scheduled actions of the tenant wait, which is the limit"
            raise Conflict(message, code="scheduled_actions_too_many")

    def _remember(self, tenant_id: UUID, is_full: bool, now: float) -> None:
        with self._lock:
            if len(self._seen) >= _MAX_REMEMBERED:
                self._seen.clear()
            self._seen[tenant_id] = (is_full, now)
