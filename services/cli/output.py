"""What a command says: tables for people, JSON for scripts (``--json``)."""

import codecs
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Where nobody looks at it there is no width: a pipe gets whole lines.
_PIPE_WIDTH = 250

# With its margin; what is narrower folds words into letters.
_NARROWEST_COLUMN = 8

# The wide blank of Chinese texts, and what joins emoji and letters: they steer nothing.
_HARMLESS = "\u3000\u200c\u200d"


def ready_streams() -> None:
    """Let the standard streams bear what is written.

    One that is closed leads nowhere, and what a terminal cannot show is written out.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not _shows_everything(stream):
            stream.reconfigure(errors="backslashreplace")


def give_up_stdout() -> None:
    """Let what is still to be written go nowhere: it would fail once more as the process ends."""
    with suppress(OSError):
        stdout = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)


def _shows_everything(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding).name == "utf-8"


def json_option(command: _Command) -> _Command:
    """Give a command the flag ``--json``, its argument ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for scripts.")(
        command
    )


def json_anyway_option(command: _Command) -> _Command:
    """Give a command that answers nothing but JSON the same flag, for scripts that say it."""
    return click.option(
        "--json", is_flag=True, expose_value=False, help="It answers in JSON in any case."
    )(command)


def console(*, stderr: bool = False) -> Console:
    """Return the terminal, or what stands in its place."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH)


def shown(text: str) -> str:
    """Return a text of a stranger for a terminal: what steers one is written out."""
    return "".join(one if _is_harmless(one) else ascii(one)[1:-1] for one in text)


def _is_harmless(one: str) -> bool:
    return one.isprintable() or one in _HARMLESS


def say(text: str = "", *, err: bool = False) -> None:
    """Print lines; what a stranger wrote in them steers no terminal."""
    click.echo(shown_lines(text), file=sys.stderr if err else sys.stdout)


def shown_lines(text: str) -> str:
    """Return lines as ``shown`` returns a text."""
    return "\n".join(map(shown, text.split("\n")))


def say_json(document: object) -> None:
    """Print a JSON document; instants and ids as text. It says the same, whatever it escapes."""
    is_ascii = not _shows_everything(sys.stdout)
    text = json.dumps(document, ensure_ascii=is_ascii, indent=2, default=_text)
    told = "".join(one if one == "\n" or _is_harmless(one) else _escaped(one) for one in text)
    click.echo(told, file=sys.stdout)


def _escaped(one: str) -> str:
    return json.dumps(one)[1:-1] if ord(one) > 0x7F else f"\\u{ord(one):04x}"


def to_second(instant: str) -> str:
    """Return an instant of the API cut to the second."""
    return f"{instant[:19]}Z"


def say_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, empty: str) -> None:
    """Print rows under headings (``columns``: key to heading), or ``empty`` if there are none.

    On a terminal that is too narrow for the columns each row is told as its members.
    """
    if not rows:
        if empty:
            say(empty)
        return
    if console().width < len(columns) * _NARROWEST_COLUMN:
        for number, row in enumerate(rows):
            if number > 0:
                say()
            say_members({heading: row.get(key) for key, heading in columns.items()})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for row in rows:
        # As text: what a stranger wrote is no markup.
        table.add_row(*[Text(_cell(row.get(key))) for key in columns])
    console().print(table)


def say_members(document: Mapping[str, Any]) -> None:
    """Print the members of a document, one on a line."""
    width = max((len(key) for key in document), default=0)
    for key, value in document.items():
        say(f"{shown(key):<{width}}  {_cell(value)}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return shown(json.dumps(value, ensure_ascii=False, default=_text))
    return shown(_text(value))


def _text(value: object) -> str:
    """Return a value as text; an instant as the API writes it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
