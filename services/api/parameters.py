"""What a client says outside the body, read strictly: the query, If-Match, Idempotency-Key."""

import re
from urllib.parse import parse_qsl
from uuid import UUID

from shared.errors import Fault, InvalidInput

_MAX_PARAMETERS = 50
# In characters, not escapes: the API document has the patterns too.
ETAG_PATTERN = r'\*|(?:W/)?"[!#-~]{0,100}"'
KEY_PATTERN = r"[!-~]{1,255}"

CHATROOM_HEADER = "X-Acting-Chatroom"
CHATROOM_PATTERN = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_ETAG = re.compile(ETAG_PATTERN, re.ASCII)
_REVISION = re.compile(r'"([0-9]{1,18})"', re.ASCII)
_UUID = re.compile(CHATROOM_PATTERN, re.ASCII)
_KEY = re.compile(KEY_PATTERN, re.ASCII)

# No revision has this number: a well-formed tag that is not one of ours matches nothing.
_NO_REVISION = -1


def read_query(text: str) -> dict[str, str]:
    """Return the parameters of a raw query string.

    Raises InvalidInput: not UTF-8 in percent escapes, a NUL, a name twice, over 50 parameters.
    """
    if not text.isascii():
        raise _query_fault("query must be percent-encoded")
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except ValueError as error:
        raise _query_fault("query is not UTF-8, or has too many parameters") from error
    query = dict(pairs)
    if len(query) != len(pairs):
        raise _query_fault("query has a parameter twice")
    if "\0" in "".join(name + value for name, value in pairs):
        raise _query_fault("query has a NUL character")
    return query


def read_if_match(header: str | None) -> int | None:
    """Return the revision that If-Match names; None without one and for ``*``.

    Raises InvalidInput when it is not a single entity tag.
    """
    if header is None or header.strip(" \t") == "*":
        return None
    tag = header.strip(" \t")
    if not _ETAG.fullmatch(tag):
        raise InvalidInput('If-Match must be one entity tag, such as "3"', code="if_match_invalid")
    revision = _REVISION.fullmatch(tag)
    return int(revision[1]) if revision else _NO_REVISION


def read_idempotency_key(header: str | None) -> str | None:
    """Return the Idempotency-Key, None without one.

    Raises InvalidInput when it is not 1 to 255 printable ASCII characters without blanks.
    """
    if header is not None and not _KEY.fullmatch(header):
        raise InvalidInput(
            "Idempotency-Key must be 1 to 255 printable ASCII characters without blanks",
            code="idempotency_key_invalid",
        )
    return header


def read_acting_chatroom(header: str | None) -> UUID | None:
    """Return the chatroom that a call of a channel acts for, None when it says none.

    Raises InvalidInput when it is no UUID.
    """
    if header is not None and not _UUID.fullmatch(header):
        raise InvalidInput(f"{CHATROOM_HEADER} must be a UUID", code="acting_chatroom_invalid")
    return None if header is None else UUID(header)


def _query_fault(message: str) -> InvalidInput:
    return InvalidInput.of([Fault(code="query_invalid", pointer="", message=message)])
