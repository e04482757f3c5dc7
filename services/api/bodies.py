"""Reading a body off the wire: its size is known and judged before the first byte is read."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from werkzeug.http import parse_options_header

from services.api.problems import LengthRequired, TooLarge, UnsupportedMedia
from shared.errors import InvalidInput

JSON = "application/json"

_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_PIECE_BYTES = 64 * 1024


def body_length(environ: dict[str, Any], *, limit: int) -> int:
    """Return how many bytes the body has, at most ``limit``.

    Raises LengthRequired for a chunked body (it could end anywhere and look whole), TooLarge,
    InvalidInput for a length that is no number.
    """
    if environ.get("HTTP_TRANSFER_ENCODING"):
        raise LengthRequired("the body needs a Content-Length, chunked bodies are not taken")
    text = environ.get("CONTENT_LENGTH") or "0"
    if not _LENGTH.fullmatch(text):
        raise InvalidInput("Content-Length is not a number", code="length_invalid")
    if int(text) > limit:
        raise TooLarge(f"the body has {int(text)} bytes, the limit is {limit}")
    return int(text)


def media_type(environ: dict[str, Any], *, allowed: Iterable[str]) -> str:
    """Return the media type of the body, one of ``allowed``; raises UnsupportedMedia."""
    allowed = tuple(allowed)
    media, options = parse_options_header(environ.get("CONTENT_TYPE", ""))
    if media.lower() not in allowed:
        raise UnsupportedMedia(f"the body must be {' or '.join(allowed)}")
    if options.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise UnsupportedMedia("the body must be UTF-8")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise UnsupportedMedia("the body must not be compressed")
    return media.lower()


def read_pieces(environ: dict[str, Any], *, length: int) -> Iterator[bytes]:
    """Yield the body in pieces; raises InvalidInput ``body_truncated`` when it ends early."""
    stream = environ["wsgi.input"]
    missing = length
    while missing:
        try:
            piece = stream.read(min(missing, _PIECE_BYTES))
        except OSError as error:  # a client that is gone or too slow
            raise _truncated(length, missing) from error
        if not piece:
            raise _truncated(length, missing)
        missing -= len(piece)
        yield piece


def _truncated(length: int, missing: int) -> InvalidInput:
    return InvalidInput(
        f"the body ended after {length - missing} of {length} bytes", code="body_truncated"
    )
