"""What the application is put together from, and what a request borrows of it."""

import hmac
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from psycopg import Connection

from services.api.request_limits import RequestLimits, no_limits
from shared.settings import Secret
from shared.tracking.click_store import ClickStore
from shared.usecases.tenant_limits import WaitingLimit

Sessions = Callable[[], AbstractContextManager[Connection]]
"""Gives a session for a block; raises ``psycopg.OperationalError`` when none is to be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of the application; limits are in bytes.

    ``public_url`` is where people reach it, without a slash at its end.
    """

    sessions: Sessions
    admin_token: Secret
    clicks: ClickStore
    public_url: str
    max_body_bytes: int
    max_bulk_bytes: int
    limits: RequestLimits = field(default_factory=no_limits)
    waiting: WaitingLimit = field(default_factory=WaitingLimit)

    @property
    def cursor_key(self) -> bytes:
        """The key that seals cursors: one for all replicas, since they share the admin token."""
        return hmac.digest(self.admin_token.reveal().encode(), b"cursors", "sha256")
