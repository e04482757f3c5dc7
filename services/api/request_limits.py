"""How many requests are taken: of a tenant, and of an address whose credentials are refused."""

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

from services.api.problems import RateExceeded
from shared.errors import AppError, Unauthenticated
from shared.observability import metrics
from shared.tracking.rates import LocalRates, Rate, Rates

ADMIN_TOKEN_INVALID = "admin_token_invalid"

_MAX_PROVEN = 10_000
_ADMIN_TOKEN = "HTTP_X_ADMIN_TOKEN"
_CREDENTIALS = ("HTTP_AUTHORIZATION", _ADMIN_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request: from where it comes, and what it shows to prove who calls."""

    limits: "RequestLimits"
    address: str
    proof: bytes

    def identified(self, tenant_id: UUID | None) -> None:
        """Note that it was proven who calls: a tenant, whose request counts, or None for the admin.

        Raises RateExceeded ``tenant_rate_exceeded``.
        """
        self.limits.remember(self)
        if tenant_id is not None:
            self.limits.count(tenant_id)


class RequestLimits:
    """Both limits over one set of buckets; a rate of None is no limit.

    Who tries tokens is held up before a token is looked at, right or wrong. From the same address
    goes on what was proven there before, since others may share it.
    """

    def __init__(
        self,
        rates: Rates,
        *,
        of_tenant: Rate | None,
        of_refusals: Rate | None,
        trusted_proxies: int = 0,
    ) -> None:
        """``trusted_proxies``: how many in front of us each add to X-Forwarded-For."""
        self._rates = rates
        self._of_tenant = of_tenant
        self._of_refusals = of_refusals
        self._trusted_proxies = trusted_proxies
        self._lock = threading.Lock()
        self._proven: OrderedDict[bytes, None] = OrderedDict()

    @contextmanager
    def visit(self, environ: dict[str, Any], *, by_admin_token: bool = False) -> Iterator[Visit]:
        """Let a request in; one that is refused for its credentials counts for its address.

        ``by_admin_token``: no other header will be looked at, and none proves anything. Raises
        RateExceeded ``address_rate_exceeded``.
        """
        address = client_address(environ, trusted_proxies=self._trusted_proxies)
        names = (_ADMIN_TOKEN,) if by_admin_token else _CREDENTIALS
        shown = [address, *(f"{name} {environ.get(name, '')}" for name in names)]
        proof = sha256("\n".join(shown).encode("utf-8", "replace")).digest()
        visit = Visit(limits=self, address=address, proof=proof)
        self._check_address(visit)
        try:
            yield visit
        except AppError as error:
            if isinstance(error, Unauthenticated) or error.code == ADMIN_TOKEN_INVALID:
                self._count_refusal(visit)
            raise

    def remember(self, visit: Visit) -> None:
        """Let what was proven here pass from now on, whatever others at its address try."""
        if self._of_refusals is None:
            return
        with self._lock:
            self._proven[visit.proof] = None
            self._proven.move_to_end(visit.proof)
            if len(self._proven) > _MAX_PROVEN:
                self._proven.popitem(last=False)

    def count(self, tenant_id: UUID) -> None:
        """Count a request of a tenant; raises RateExceeded ``tenant_rate_exceeded``."""
        if self._of_tenant is None:
            return
        if wait := self._rates.take(f"tenant:{tenant_id}", self._of_tenant):
            limit = f"{self._of_tenant.per_minute} requests per minute, the limit of a tenant"
            raise _exceeded("tenant", f"these are more than {limit}", wait)

    def _check_address(self, visit: Visit) -> None:
        if self._of_refusals is None or visit.proof in self._proven:
            return
        if wait := self._rates.wait(f"refused:{visit.address}", self._of_refusals):
            raise _exceeded("address", "too many tokens from this address were refused", wait)

    def _count_refusal(self, visit: Visit) -> None:
        if self._of_refusals is not None:
            self._rates.take(f"refused:{visit.address}", self._of_refusals)


def no_limits() -> RequestLimits:
    """Return limits that hold nobody up."""
    return RequestLimits(LocalRates(), of_tenant=None, of_refusals=None)


def client_address(environ: dict[str, Any], *, trusted_proxies: int) -> str:
    """Return where a request comes from: an IPv4 address, the /64 of an IPv6 one.

    What is left of the last ``trusted_proxies`` entries of X-Forwarded-For anybody may have
    written. Without so many the peer itself is the client.
    """
    peer = str(environ.get("REMOTE_ADDR") or "unknown")
    said = str(environ.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    if 0 < trusted_proxies <= len(said):
        peer = said[-trusted_proxies].strip()
    try:
        address = ip_address(_without_port(peer))
    except ValueError:
        return "unknown"
    if not isinstance(address, IPv6Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped or IPv6Network((int(address), 64), strict=False).network_address)


def _without_port(peer: str) -> str:
    """Return the address of a peer, of which some proxies tell the port too."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    host, _, port = peer.partition(":")
    return peer if ":" in port else host


def _exceeded(limit: str, message: str, wait: float) -> RateExceeded:
    metrics.REQUESTS_LIMITED.labels(limit).inc()
    seconds = math.ceil(wait)
    return RateExceeded(
        f"{message}; try again in {seconds} s",
        code=f"{limit}_rate_exceeded",
        retry_after_seconds=seconds,
    )
