"""What a command says: tables for people, JSON for scripts (``--json``)."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Where nobody looks at it there is no width: a pipe gets whole lines.
_PIPE_WIDTH = 250


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


def say_json(document: object) -> None:
    """Print a JSON document; instants and ids as text."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2, default=_text))


def to_second(instant: str) -> str:
    """Return an instant of the API cut to the second."""
    return f"{instant[:19]}Z"


def say_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, empty: str) -> None:
    """Print rows under headings (``columns``: key to heading), or ``empty`` if there are none."""
    if not rows:
        if empty:
            click.echo(empty)
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
        click.echo(f"{key:<{width}}  {_cell(value)}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=_text)
    return _text(value)


def _text(value: object) -> str:
    """Return a value as text; an instant as the API writes it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
