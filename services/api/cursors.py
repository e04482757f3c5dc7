"""Cursors of paged lists: opaque, and void for any other list than the one that gave them out."""

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from shared.errors import Fault, InvalidInput

_TEXT = re.compile(r"[A-Za-z0-9_-]{1,500}", re.ASCII)
_SEAL_BYTES = 16

Position = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursors:
    """The cursors of one list: ``context`` names its tenant, address and filters."""

    key: bytes
    context: bytes

    def seal(self, position: Sequence[int | str]) -> str:
        """Return the cursor of the position of a page's last item."""
        payload = json.dumps(list(position), separators=(",", ":")).encode()
        return _encode(self._seal_of(payload) + payload)

    def open(self, cursor: str) -> Position:
        """Return the position in a cursor.

        Raises InvalidInput ``cursor_invalid`` when it is not one that this list gave out.
        """
        raw = _decode(cursor)
        seal, payload = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal_of(payload)):
            raise _invalid()
        return tuple(json.loads(payload))

    def _seal_of(self, payload: bytes) -> bytes:
        sealed = sha256(self.context).digest() + payload
        return hmac.digest(self.key, sealed, "sha256")[:_SEAL_BYTES]


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(cursor: str) -> bytes:
    if not _TEXT.fullmatch(cursor) or len(cursor) % 4 == 1:
        raise _invalid()
    raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    if _encode(raw) != cursor:  # unused bits of the last character
        raise _invalid()
    return raw


def _invalid() -> InvalidInput:
    message = "cursor is not one that this list gave out"
    return InvalidInput.of([Fault(code="cursor_invalid", pointer="/cursor", message=message)])
