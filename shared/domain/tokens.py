"""Where the tokens of a text are, and what each of them names."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

TokenName = Literal[
    "row",
    "row.column",
    "run.id",
    "run.scheduled_for",
    "trigger.name",
    "now",
    "event",
    "event.key",
    "line_user.attribute",
    "link.name",
]

_OPENING = re.compile(r"\$(\{row\.|row|run\.id|run\.scheduled_for|trigger\.name|now)")
_OPENING_ON_EVENTS = re.compile(
    r"\$(\{(?:row|event|line_user|link)\."
    r"|row|run\.id|run\.scheduled_for|trigger\.name|now|event|line_user|link)"
)
_OF_MEMBERS: Mapping[str, TokenName] = {
    "row": "row.column",
    "event": "event.key",
    "line_user": "line_user.attribute",
    "link": "link.name",
}
_ONLY_OF_MEMBERS = frozenset({"line_user", "link"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token at ``text[start:end]``.

    ``member`` is what the ones with a dot name: a column, a key, an attribute, a link.
    """

    name: TokenName
    start: int
    end: int
    member: str = ""
    braced: bool = False

    @property
    def column(self) -> str:
        """The column that a ``row.column`` token names."""
        return self.member if self.name == "row.column" else ""


def tokens_of(text: str, *, on_events: bool = False) -> Iterator[Token]:
    """Give the tokens of a text in its order; ``on_events``: those of events and contacts too."""
    opening = _OPENING_ON_EVENTS if on_events else _OPENING
    last_brace = text.rfind("}")
    position = 0
    while found := opening.search(text, position):
        token = _token_at(text, found, last_brace)
        position = found.end() if token is None else token.end
        if token is not None:
            yield token


def _token_at(text: str, found: re.Match[str], last_brace: int) -> Token | None:
    start, end, name = found.start(), found.end(), found[1]
    if name.startswith("{"):
        if last_brace < end:  # known beforehand: looking from every opening would be quadratic
            return None
        close = text.index("}", end)
        return Token(
            name=_OF_MEMBERS[name[1:-1]],
            start=start,
            end=close + 1,
            member=text[end:close],
            braced=True,
        )
    if end < len(text) and is_word_character(text[end]):
        return None
    if name in _OF_MEMBERS:
        member = _word_at(text, end + 1) if text.startswith(".", end) else ""
        if member:
            end += 1 + len(member)
            return Token(name=_OF_MEMBERS[name], start=start, end=end, member=member)
        if name in _ONLY_OF_MEMBERS:
            return None
    return Token(name=cast(TokenName, name), start=start, end=end)


def _word_at(text: str, start: int) -> str:
    end = start
    while end < len(text) and is_word_character(text[end]):
        end += 1
    return text[start:end]


def is_word_character(character: str) -> bool:
    """Tell whether a name without braces goes on with this character."""
    # More than \w of `re`: many scripts write vowels and tones as combining marks, or join words.
    return (
        character.isalnum()
        or character in "_\u200c\u200d"
        or unicodedata.category(character) in ("Mn", "Mc", "Me")
    )
