"""Tokens in the settings of actions: find them, rename the columns in them, render them.

The tokens are ``$row.<column>``, ``${row.<column>}``, ``$row``, ``$run.id``,
``$run.scheduled_for``, ``$trigger.name`` and ``$now``. Every other ``$`` is plain text, and there
is no escape: ``$rows``, ``$run.name``, ``${now}`` and ``$$`` stand for themselves. Keys of objects
are no templates.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Literal, NamedTuple, cast

from shared.domain.columns import Column
from shared.domain.faults import MAX_TOLD, child, cut
from shared.domain.instants import instant_text
from shared.domain.strict_json import Json
from shared.errors import Fault, InvalidInput

MAX_RENDERED = 262_144
"""Characters that one call of ``render`` may put together."""

TokenName = Literal["row", "row.column", "run.id", "run.scheduled_for", "trigger.name", "now"]

_OPENING = re.compile(r"\$(\{row\.|row|run\.id|run\.scheduled_for|trigger\.name|now)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token at ``text[start:end]``; ``column`` is what a ``row.column`` token names."""

    name: TokenName
    start: int
    end: int
    column: str = ""
    braced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateContext:
    """What tokens stand for; ``row`` has cells by column name, None on a run without a record."""

    row: Mapping[str, Json] | None
    run_id: int
    scheduled_for: datetime
    trigger_name: str
    now: datetime


def tokens_in(value: Json) -> Iterator[Token]:
    """Give the tokens of all texts in a JSON value, in document order."""
    for _, text in _texts(value, None):
        yield from _tokens_of(text)


def has_row_token(value: Json) -> bool:
    """Tell whether a JSON value has a token that needs a record, in whatever form."""
    return any(map(_needs_row, tokens_in(value)))


def row_token_pointers(value: Json, pointer: str = "") -> Iterator[str]:
    """Give the pointer of each text in a JSON value that has a token that needs a record."""
    for place, text in _texts(value, None):
        if any(map(_needs_row, _tokens_of(text))):
            yield pointer + _pointer_of(place)


def _needs_row(token: Token) -> bool:
    return token.name in ("row", "row.column")


def template_faults(value: Json, columns: Iterable[Column], pointer: str = "") -> list[Fault]:
    """Return a fault ``template_column_unknown`` for each token that names none of the columns.

    The first ``MAX_TOLD`` of them.
    """
    names = {column.name for column in columns}
    unknown = (
        (place, token)
        for place, text in _texts(value, None)
        for token in _tokens_of(text)
        if token.name == "row.column" and token.column not in names
    )
    return [
        Fault(
            code="template_column_unknown",
            pointer=pointer + _pointer_of(place),
            message=_unknown(token),
        )
        for place, token in islice(unknown, MAX_TOLD)
    ]


def _unknown(token: Token) -> str:
    name = cut(token.column)
    if token.braced:
        return f"unknown column '{name}' in '${{row.{name}}}'"
    return (
        f"unknown column '{name}' in '$row.{name}'. "
        "write ${row.<column>} where the name of the column ends before the next word character"
    )


def rename_row_tokens(value: Json, renames: Mapping[str, str]) -> Json:
    """Return the JSON value with its row tokens naming columns by their new names."""
    return _map_texts(value, lambda text: _renamed(text, renames))


def _renamed(text: str, renames: Mapping[str, str]) -> str:
    parts: list[str] = []
    end = 0
    for token in _tokens_of(text):
        if token.column in renames and token.name == "row.column":
            new = renames[token.column]
            plain = not token.braced and all(map(_is_word_character, new))
            parts += [text[end : token.start], f"$row.{new}" if plain else f"${{row.{new}}}"]
            end = token.end
    return "".join([*parts, text[end:]])


def render(value: Json, context: TemplateContext) -> Json:
    """Return the JSON value with every token replaced, in a single pass.

    A text that is one token becomes the JSON value it stands for; in a longer text values are
    written as text. On a run without a record every row token is the empty text (spec 2 §4).
    Raises InvalidInput ``rendered_too_long`` beyond MAX_RENDERED characters.
    """
    return _map_texts(value, _Renderer(context).render)


class _Renderer:
    """Renders texts while there is room for them."""

    def __init__(self, context: TemplateContext) -> None:
        self._context = context
        self._room = MAX_RENDERED

    def render(self, text: str) -> Json:
        tokens = list(_tokens_of(text))
        if len(tokens) == 1 and tokens[0].end - tokens[0].start == len(text):
            value = _value_of(tokens[0], self._context)
            self._take(len(text_of(value)))
            return value
        parts: list[str] = []
        end = 0
        for token in tokens:
            parts += [text[end : token.start], text_of(_value_of(token, self._context))]
            self._take(len(parts[-1]) + len(parts[-2]))
            end = token.end
        return "".join([*parts, text[end:]])

    def _take(self, characters: int) -> None:
        self._room -= characters
        if self._room < 0:
            message = f"the rendered action has more than {MAX_RENDERED} characters"
            raise InvalidInput(message, code="rendered_too_long")


def _value_of(token: Token, context: TemplateContext) -> Json:
    match token.name:
        case "row":
            return "" if context.row is None else dict(context.row)
        case "row.column":
            return "" if context.row is None else context.row.get(token.column)
        case "run.id":
            return context.run_id
        case "run.scheduled_for":
            return instant_text(context.scheduled_for)
        case "trigger.name":
            return context.trigger_name
        case "now":
            return instant_text(context.now)


def text_of(value: Json) -> str:
    """Return what a value is inside a longer text (spec 2 §4)."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return format(Decimal(repr(value)), "f")
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _tokens_of(text: str) -> Iterator[Token]:
    last_brace = text.rfind("}")
    position = 0
    while found := _OPENING.search(text, position):
        token = _token_at(text, found, last_brace)
        position = found.end() if token is None else token.end
        if token is not None:
            yield token


def _token_at(text: str, found: re.Match[str], last_brace: int) -> Token | None:
    start, end, name = found.start(), found.end(), found[1]
    if name == "{row.":
        if last_brace < end:  # known beforehand: looking from every opening would be quadratic
            return None
        close = text.index("}", end)
        column = text[end:close]
        return Token(name="row.column", start=start, end=close + 1, column=column, braced=True)
    if end < len(text) and _is_word_character(text[end]):
        return None
    if name == "row" and text.startswith(".", end) and (column := _word_at(text, end + 1)):
        end += 1 + len(column)
        return Token(name="row.column", start=start, end=end, column=column)
    return Token(name=cast(TokenName, name), start=start, end=end)


def _word_at(text: str, start: int) -> str:
    end = start
    while end < len(text) and _is_word_character(text[end]):
        end += 1
    return text[start:end]


def _is_word_character(character: str) -> bool:
    # More than \w of `re`: many scripts write vowels and tones as combining marks, or join words.
    return (
        character.isalnum()
        or character in "_\u200c\u200d"
        or unicodedata.category(character) in ("Mn", "Mc", "Me")
    )


class _Place(NamedTuple):
    """Where a value stands: under ``key`` of what stands at ``above`` (None: the whole)."""

    above: "_Place | None"
    key: str | int


def _texts(value: Json, place: _Place | None) -> Iterator[tuple[_Place | None, str]]:
    # Places, not pointers: of a long list under a long key, every pointer would repeat the key.
    match value:
        case str():
            yield place, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, _Place(place, index))
        case dict():
            for key, item in value.items():
                yield from _texts(item, _Place(place, key))


def _pointer_of(place: _Place | None) -> str:
    return "" if place is None else child(_pointer_of(place.above), place.key)


def _map_texts(value: Json, change: Callable[[str], Json]) -> Json:
    match value:
        case str():
            return change(value)
        case list():
            return [_map_texts(item, change) for item in value]
        case dict():
            return {key: _map_texts(item, change) for key, item in value.items()}
        case _:
            return value
