"""How the secrets of all tenants are kept, and the way from one encryption key to the next."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg import Connection

from shared.errors import InvalidInput, Unavailable
from shared.queries.stored_secrets import (
    KINDS,
    START,
    Kind,
    StoredSecret,
    list_secrets,
    lock_other_secrets,
    reseal,
)
from shared.sealing import Sealed, Sealer

_BATCH = 200


State = Literal["current", "in_the_clear", "under_other_keys", "unreadable", "lost_and_expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How many secrets there are, and how many of them are not as they would be stored now.

    ``unreadable`` can be decrypted with no key that is here, and somebody may ask for them.
    """

    stored: int
    in_the_clear: int
    under_other_keys: int
    unreadable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """What a rotation has done; the ``unreadable`` stay as they are."""

    encrypted: int
    unreadable: int


def survey_secrets(conn: Connection, sealer: Sealer, *, now: datetime) -> Kept:
    """Read every secret and return how they are kept. For a session of the worker's role."""
    counts = Counter(
        _state(secret, sealer) for kind in KINDS for secret in _all(conn, kind, now=now)
    )
    return Kept(
        stored=counts.total(),
        in_the_clear=counts["in_the_clear"],
        under_other_keys=counts["under_other_keys"],
        unreadable=counts["unreadable"],
    )


def _state(secret: StoredSecret, sealer: Sealer) -> State:
    if _opened(sealer, secret.sealed) is None:
        return "unreadable" if secret.in_use else "lost_and_expired"
    if secret.sealed.sealed_with == sealer.current:
        return "current"
    return "in_the_clear" if secret.sealed.sealed_with is None else "under_other_keys"


def rotate_secrets(conn: Connection, sealer: Sealer, *, now: datetime) -> Rotated:
    """Encrypt every secret under the first key, some hundreds in a transaction.

    For a session of the worker's role. Beside everything else, and again if it was interrupted.
    Raises InvalidInput ``encryption_keys_missing``.
    """
    if sealer.current is None:
        message = "ENCRYPTION_KEYS names no key to encrypt with"
        raise InvalidInput(message, code="encryption_keys_missing")
    done = Counter(
        opened
        for kind in KINDS
        for opened in _rotate(conn, kind, sealer, current=sealer.current, now=now)
    )
    return Rotated(encrypted=done[True], unreadable=done[False])


def _rotate(
    conn: Connection, kind: Kind, sealer: Sealer, *, current: str, now: datetime
) -> Iterator[bool]:
    """Encrypt those of a kind anew; yield for each whether it could be read, if anybody does."""
    after = START
    while True:
        with conn.transaction():
            page = lock_other_secrets(
                conn, kind, current=current, after=after, limit=_BATCH, now=now
            )
            texts = [(secret, _opened(sealer, secret.sealed)) for secret in page]
            reseal(
                conn,
                kind,
                [(secret.id, sealer.seal(text)) for secret, text in texts if text is not None],
            )
        if not page:
            return
        after = page[-1].id
        yield from (text is not None for secret, text in texts if text is not None or secret.in_use)


def _all(conn: Connection, kind: Kind, *, now: datetime) -> Iterator[StoredSecret]:
    after = START
    while page := list_secrets(conn, kind, after=after, limit=_BATCH, now=now):
        yield from page
        after = page[-1].id


def _opened(sealer: Sealer, sealed: Sealed) -> bytes | None:
    try:
        return sealer.open(sealed)
    except Unavailable:
        return None
