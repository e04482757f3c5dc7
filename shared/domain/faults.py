"""Where a fault lies: JSON pointers, faults in document order, quoted input."""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice

from shared.errors import Fault

MAX_TOLD = 100
"""Faults that are told, the first ones: a body may be wrong in a hundred thousand places."""
MAX_POINTER = 1000
"""Characters of a pointer that are told; keys are the client's, and may be as long as a body."""


def child(pointer: str, key: str | int) -> str:
    """Return the pointer to the member ``key`` of what ``pointer`` names (RFC 6901)."""
    return f"{pointer}/{cut(str(key), MAX_POINTER).replace('~', '~0').replace('/', '~1')}"


def under(pointer: str, faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults of a part as faults of the whole, in which ``pointer`` names the part."""
    return [
        Fault(code=fault.code, pointer=pointer + fault.pointer, message=fault.message)
        for fault in faults
    ]


def unknown_keys(raw: Mapping[str, object], known: Container[str]) -> Iterator[str]:
    """Give the keys of an object that are not known, the first ``MAX_TOLD`` of them."""
    return islice((key for key in raw if key not in known), MAX_TOLD)


def unknown_key(key: str, place: str, known: Iterable[str]) -> str:
    """Return what is said of a key that is none of ``known``."""
    return f"unknown key '{cut(key)}' in {place}. keys: {', '.join(known)}"


def cut(text: str, limit: int = 200) -> str:
    """Return ``text`` for a message: what a client sent can be as long as a body."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def in_document_order(raw: object, faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults as a reader of the parsed document ``raw`` meets their places.

    A part comes before its members, a missing member after those that are there; faults of one
    place keep their order.
    """
    members: dict[int, dict[object, int]] = {}  # by identity of an object: its keys in order
    return sorted(faults, key=lambda fault: tuple(_places(raw, fault.pointer, members)))


def _places(raw: object, pointer: str, members: dict[int, dict[object, int]]) -> Iterator[int]:
    value = raw
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        match value:
            case dict() if key in value:
                if id(value) not in members:
                    members[id(value)] = {name: place for place, name in enumerate(value)}
                yield members[id(value)][key]
                value = value[key]
            case list() if key.isascii() and key.isdigit() and int(key) < len(value):
                yield int(key)
                value = value[int(key)]
            case dict() | list():
                yield len(value)
                return
            case _:
                return
