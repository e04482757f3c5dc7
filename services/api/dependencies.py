"""What the application is put together from, and what a request borrows of it."""

import hmac
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import psycopg

from services.api.long_questions import LongQuestions
from services.api.request_limits import RequestLimits, no_limits
from shared.db.connection import connect
from shared.db.roles import API, SCANNER, require_role
from shared.db.tenant_session import TenantSession
from shared.sealing import Sealer
from shared.settings import Secret
from shared.tracking.click_store import ClickStore
from shared.usecases.tenant_limits import WaitingLimit

Sessions = Callable[[], AbstractContextManager[TenantSession]]
"""Gives a session for a block; raises ``psycopg.OperationalError`` when none is to be had."""


def operator_sessions(url: str) -> Sessions:
    """Return the sessions for what the operator does across tenants: those of a scanner.

    Each is opened for its use, which is rare. To take one raises Forbidden when the API's login may
    not act as a scanner: for this alone it may be given that role as well.
    """
    name = "duebook-api-operator"

    @contextmanager
    def session() -> Iterator[TenantSession]:
        try:
            conn = connect(url, application_name=name, role=SCANNER)
        except psycopg.OperationalError:
            require_role(url, SCANNER, application_name=name, beside=API)
            raise
        with conn:
            yield conn

    return session


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of the application; limits are in bytes.

    ``sessions`` see what their tenant has, ``operator_sessions`` what all have: one of
    these raises Forbidden when the API's login may not.
    ``public_url`` is where people reach it, without a slash at its end.
    """

    sessions: Sessions
    operator_sessions: Sessions
    admin_token: Secret
    clicks: ClickStore
    public_url: str
    max_body_bytes: int
    max_bulk_bytes: int
    limits: RequestLimits = field(default_factory=no_limits)
    waiting: WaitingLimit = field(default_factory=WaitingLimit)
    sealer: Sealer = field(default_factory=Sealer)
    questions: LongQuestions = field(default_factory=LongQuestions)

    @property
    def cursor_key(self) -> bytes:
        """The key that seals cursors: one for all replicas, since they share the admin token."""
        return hmac.digest(self.admin_token.reveal().encode(), b"cursors", "sha256")
