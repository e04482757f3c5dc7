"""URLs of outgoing calls: the strict form that is taken, and its parts."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_URL = 2048

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_PORT = re.compile(r"[0-9]{1,5}")
_DEFAULT_PORT = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A URL to call; ``host`` is a name or a bare address, ``target`` is path and query.

    ``template`` is how its author wrote it, where it has tokens: what they stand for is nothing to
    be told elsewhere.
    """

    scheme: str
    host: str
    port: int
    target: str
    template: str | None = None

    @property
    def host_header(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORT[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str) -> Url:
    """Return the parts of ``text``. Raises ValueError with the reason, which never repeats it.

    Printable ASCII, http or https, no user part. A fragment is dropped: it is never sent.
    """
    if len(text) > MAX_URL:
        raise ValueError(f"a URL has at most {MAX_URL} characters")
    if not _PRINTABLE.fullmatch(text) or "\\" in text:
        raise ValueError("a URL is printable ASCII without blanks and backslashes")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ValueError("the host of the URL cannot be read") from error
    if parts.scheme not in _DEFAULT_PORT or not text[len(parts.scheme) :].startswith("://"):
        raise ValueError("a URL begins with http:// or https://")
    host, port = _host_and_port(parts.netloc)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Url(
        scheme=parts.scheme,
        host=host,
        port=_DEFAULT_PORT[parts.scheme] if port is None else port,
        target=target,
    )


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    if "@" in netloc:
        raise ValueError("a URL has no user part")
    host, colon, port = netloc, "", ""
    if netloc.startswith("["):
        host, _, rest = netloc[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        readable = bool(_IPV6.fullmatch(host))
    else:
        host, colon, port = netloc.partition(":")
        readable = len(host) <= 253 and bool(_HOST_NAME.fullmatch(host))
    if not readable or colon not in ("", ":"):
        raise ValueError("the host of the URL cannot be read")
    return host.lower(), _port(port) if colon else None


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or not 1 <= int(text) <= 65535:
        raise ValueError("the port of the URL is a number from 1 to 65535")
    return int(text)
