"""Invariants as values: a question to the database, and what contradicts one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A promise and the statement that returns one text for each row that breaks it.

    ``parameters`` are the statement's own, beside ``settled_before``, ``limit`` and ``executions``.
    """

    number: str
    promise: str
    statement: LiteralString
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that contradicts an invariant; ``found`` names it."""

    invariant: str
    promise: str
    found: str
