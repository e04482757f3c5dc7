"""Secrets at rest: encrypted under the keys of ENCRYPTION_KEYS, in the clear where there is none.

What is stored names the key that it is encrypted under: both kinds live side by side.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from shared.errors import Unavailable

# The library reads two keys in a row as the first.
_KEY = re.compile(r"[A-Za-z0-9_-]{43}=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A value as it is stored; ``sealed_with`` names its key, None: it is in the clear."""

    content: bytes = field(repr=False)
    sealed_with: str | None


class Sealer:
    """Encrypts under the first of the operator's keys, and reads what any of them encrypted.

    Raises ValueError for a key that is none: 32 bytes in URL-safe base64.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        texts = list(keys)
        if not all(map(_KEY.fullmatch, texts)):
            raise ValueError("a key is 32 bytes in URL-safe base64")
        fernets = [Fernet(text) for text in texts]
        self._fernet = MultiFernet(fernets) if fernets else None
        self.current = key_name(texts[0]) if texts else None

    def seal(self, content: bytes) -> Sealed:
        """Return the content as it is to be stored."""
        if self._fernet is None:
            return Sealed(content=content, sealed_with=None)
        return Sealed(content=self._fernet.encrypt(content), sealed_with=self.current)

    def open(self, sealed: Sealed) -> bytes:
        """Return what was sealed; raises Unavailable ``secret_sealed`` when no key fits."""
        if sealed.sealed_with is None:
            return sealed.content
        try:
            if self._fernet is not None:
                return self._fernet.decrypt(sealed.content)
        except InvalidToken:
            pass
        message = f"no key of ENCRYPTION_KEYS opens what {sealed.sealed_with} has encrypted"
        raise Unavailable(message, code="secret_sealed")


def key_name(text: str) -> str:
    """Return what a key is called where it must not stand: eight digits of its hash."""
    return sha256(text.encode()).hexdigest()[:8]
