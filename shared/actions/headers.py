"""Headers that an author may add to an outgoing call."""

import re
from collections.abc import Iterator, Mapping

MAX_HEADERS = 50
MAX_VALUE = 4096

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e\t]*")

# Ours, or the connection's: an author who could set them could split or redirect a request, or
# pretend to be another sender.
_RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "duebook-delivery",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    }
)


def header_faults(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name, reason) for each header that cannot be sent; ("", reason) for all of them."""
    if len(headers) > MAX_HEADERS:
        yield "", f"at most {MAX_HEADERS} headers can be set"
    seen: set[str] = set()
    for name, value in headers.items():
        reason = _name_fault(name, seen) or _value_fault(value)
        seen.add(name.lower())
        if reason:
            yield name, reason


def _name_fault(name: str, seen: set[str]) -> str | None:
    if not _NAME.fullmatch(name):
        return "is not the name of a header"
    if name.lower() in _RESERVED or name.lower().startswith("proxy-"):
        return "is set by Duebook or by the connection"
    if name.lower() in seen:
        return "stands twice"
    return None


def _value_fault(value: str) -> str | None:
    if len(value) > MAX_VALUE:
        return f"has more than {MAX_VALUE} characters"
    if not _VALUE.fullmatch(value):
        return "has a character that a header cannot carry"
    return None
