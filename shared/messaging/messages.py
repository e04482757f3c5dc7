"""The message: a versioned list of references to rows of one kind. The row is the truth."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args
from uuid import UUID

from shared.domain import strict_json
from shared.domain.work import Announced, Reference, ReferenceKind
from shared.errors import AppError, InvalidInput

VERSION = 1
MAX_ITEMS = 500
_KEYS = {"v", "kind", "items"}
_MAX_ID = 2**63 - 1
_UUID_LENGTH = 36


class UnreadableMessage(AppError):
    """Not a message of a version that this release reads."""

    code = "message_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """References to 1 to 500 rows of one kind."""

    kind: ReferenceKind
    items: tuple[Reference, ...]

    def to_bytes(self) -> bytes:
        """Return the message's body; docs/messages.md has its schema."""
        items = [[item.id, str(item.token)] for item in self.items]
        message = {"v": VERSION, "kind": self.kind, "items": items}
        return json.dumps(message, separators=(",", ":")).encode()


def read_batch(body: bytes) -> Batch:
    """Return the batch in a message's body. Raises UnreadableMessage, whatever the bytes are."""
    try:
        raw = strict_json.loads(body)
    except InvalidInput as error:
        raise UnreadableMessage(f"not JSON: {error.message}") from error
    if not isinstance(raw, dict):
        raise UnreadableMessage("not an object")
    return Batch(kind=_kind(raw), items=tuple(_references(raw["items"])))


def pack(announced: Sequence[Announced], *, size: int) -> Iterator[list[Announced]]:
    """Yield groups of up to ``size`` rows, one message each.

    Urgent and other rows never share a message, nor do rows of two kinds. A row that has cost a
    worker its life is alone: should it do so again, no neighbour loses a start by it.
    """
    for urgent, kind in product((True, False), get_args(ReferenceKind)):
        rows = [row for row in announced if row.urgent == urgent and row.kind == kind]
        together = [row for row in rows if row.worker_losses == 0]
        for start in range(0, len(together), size):
            yield together[start : start + size]
        for row in rows:
            if row.worker_losses > 0:
                yield [row]


def _kind(raw: Mapping[str, Any]) -> ReferenceKind:
    # The version first: what else a newer one holds is not ours to judge.
    if type(raw.get("v")) is not int or raw["v"] != VERSION:
        raise UnreadableMessage(f"version is not {VERSION}")
    if raw.keys() != _KEYS:
        raise UnreadableMessage(f"keys are not {', '.join(sorted(_KEYS))}")
    for kind in get_args(ReferenceKind):
        if raw["kind"] == kind:
            found: ReferenceKind = kind
            return found
    raise UnreadableMessage("kind is unknown")


def _references(items: object) -> Iterator[Reference]:
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        raise UnreadableMessage(f"items is not a list of 1 to {MAX_ITEMS}")
    for item in items:
        if not isinstance(item, list) or len(item) != 2:
            raise UnreadableMessage("an item is not a pair of id and token")
        yield Reference(id=_id(item[0]), token=_token(item[1]))


def _id(value: object) -> int:
    if type(value) is not int or not 1 <= value <= _MAX_ID:
        raise UnreadableMessage("an id is not a positive integer of 64 bits")
    return value


def _token(value: object) -> UUID:
    # UUID() also takes braces, "urn:uuid:" and missing dashes; we write none of them.
    try:
        if isinstance(value, str) and len(value) == _UUID_LENGTH:
            token = UUID(value)
            if str(token) == value:
                return token
    except ValueError:
        pass
    raise UnreadableMessage("a token is not a UUID")
