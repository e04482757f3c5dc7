"""Secrets at rest: encrypted under the keys of ENCRYPTION_KEYS, in the clear where there is none.

What is stored names the key that it is encrypted under: both kinds live side by side.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from shared.errors import Unavailable

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

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
        self._keys = tuple(keys)
        if not all(map(_KEY.fullmatch, self._keys)):
            raise ValueError("a key is 32 bytes in URL-safe base64")
        self.current = key_name(self._keys[0]) if self._keys else None

    @cached_property
    def _fernet(self) -> "MultiFernet":
        # Eight MiB, which no process is to hold that encrypts nothing.
        from cryptography.fernet import Fernet, MultiFernet

        return MultiFernet([Fernet(key) for key in self._keys])

    def seal(self, content: bytes) -> Sealed:
        """Return the content as it is to be stored."""
        if self.current is None:
            return Sealed(content=content, sealed_with=None)
        return Sealed(content=self._fernet.encrypt(content), sealed_with=self.current)

    def open(self, sealed: Sealed) -> bytes:
        """Return what was sealed; raises Unavailable ``secret_sealed`` when no key fits."""
        if sealed.sealed_with is None:
            return sealed.content
        opened = self._decrypted(sealed.content) if self._keys else None
        if opened is None:
            message = f"no key of ENCRYPTION_KEYS opens what {sealed.sealed_with} has encrypted"
            raise Unavailable(message, code="secret_sealed")
        return opened

    def _decrypted(self, content: bytes) -> bytes | None:
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(content)
        except InvalidToken:
            return None


def key_name(text: str) -> str:
    """Return what a key is called where it must not stand: eight digits of its hash."""
    return sha256(text.encode()).hexdigest()[:8]
