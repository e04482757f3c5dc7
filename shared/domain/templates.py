"""Tokens in the settings of actions: find them, rename the columns in them, render them.

The tokens are ``$row.<column>``, ``${row.<column>}``, ``$row``, ``$run.id``,
``$run.scheduled_for``, ``$trigger.name`` and ``$now``; where an event led to the action, in rules
and workflows, also ``$event.<key>``, ``$event``, ``$line_user.<attribute>``, ``$link.<name>`` and
their forms in braces. Every other ``$`` is plain text, and there is no escape: ``$rows``,
``$run.name``, ``${now}`` and ``$$`` stand for themselves. Keys of objects are no templates.
"""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

from shared.domain.columns import Column
from shared.domain.faults import MAX_TOLD, child, cut
from shared.domain.instants import instant_text
from shared.domain.strict_json import Json
from shared.domain.tokens import Token, is_word_character, tokens_of
from shared.errors import Fault, InvalidInput

MAX_RENDERED = 262_144
"""Characters that one call of ``render`` may put together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateContext:
    """What tokens stand for; ``row`` has cells by column name, None on a run without a record.

    ``event`` is what the event told, None where no event led to the action: then neither it nor
    contact nor link has tokens. ``line_user`` has own fields and attributes of the contact,
    ``links`` the addresses of a workflow's links by name.
    """

    row: Mapping[str, Json] | None
    run_id: int
    scheduled_for: datetime
    trigger_name: str
    now: datetime
    event: Mapping[str, Json] | None = None
    line_user: Mapping[str, Json] | None = None
    links: Mapping[str, str] | None = None

    @property
    def on_events(self) -> bool:
        """Whether the tokens of events, contacts and links count."""
        return self.event is not None


def tokens_in(value: Json, *, on_events: bool = False) -> Iterator[Token]:
    """Give the tokens of all texts in a JSON value, in document order.

    ``on_events``: those of events, contacts and links too.
    """
    for _, text in _texts(value, None):
        yield from tokens_of(text, on_events=on_events)


def has_row_token(value: Json) -> bool:
    """Tell whether a JSON value has a token that needs a record, in whatever form."""
    return any(map(_needs_row, tokens_in(value)))


def row_token_pointers(value: Json, pointer: str = "", *, on_events: bool = False) -> Iterator[str]:
    """Give the pointer of each text in a JSON value that has a token that needs a record."""
    for place, text in _texts(value, None):
        if any(map(_needs_row, tokens_of(text, on_events=on_events))):
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
        for token in tokens_of(text)
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


def link_faults(value: Json, links: Container[str], pointer: str = "") -> list[Fault]:
    """Return a fault ``template_link_unknown`` for each token that names none of the links.

    The first ``MAX_TOLD`` of them.
    """
    unknown = (
        (place, token)
        for place, text in _texts(value, None)
        for token in tokens_of(text, on_events=True)
        if token.name == "link.name" and token.member not in links
    )
    return [
        Fault(
            code="template_link_unknown",
            pointer=pointer + _pointer_of(place),
            message=_unknown_link(token),
        )
        for place, token in islice(unknown, MAX_TOLD)
    ]


def _unknown_link(token: Token) -> str:
    name = cut(token.member)
    if token.braced:
        return f"unknown link '{name}' in '${{link.{name}}}'"
    return (
        f"unknown link '{name}' in '$link.{name}'. "
        "write ${link.<name>} where the name of the link ends before the next word character"
    )


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
    for token in tokens_of(text):
        if token.column in renames and token.name == "row.column":
            new = renames[token.column]
            plain = not token.braced and all(map(is_word_character, new))
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
        tokens = list(tokens_of(text, on_events=self._context.on_events))
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
            return "" if context.row is None else context.row.get(token.member)
        case "run.id":
            return context.run_id
        case "run.scheduled_for":
            return instant_text(context.scheduled_for)
        case "trigger.name":
            return context.trigger_name
        case "now":
            return instant_text(context.now)
        case _:
            return _value_on_events(token, context)


def _value_on_events(token: Token, context: TemplateContext) -> Json:
    """Return what an event's token stands for: null, where its key or attribute is not there."""
    match token.name:
        case "event":
            return dict(context.event or {})
        case "event.key":
            return (context.event or {}).get(token.member)
        case "line_user.attribute":
            return (context.line_user or {}).get(token.member)
        case _:
            return (context.links or {}).get(token.member)


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
