"""Commands about definitions as a document: ``export``, ``plan``, ``apply``."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from services.cli.api import Api, Refused, api_of_moderator, api_option
from services.cli.output import json_anyway_option, json_option, say, say_json, shown
from services.cli.plan_text import changes_of, counted, say_plan
from shared.domain.on_existing import MAX_PER_MINUTE, MODES
from shared.errors import AppError

_MEDIA = "application/x-ndjson"
_CHANGES = 2

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _channel_option(command: _Command) -> _Command:
    return click.option(
        "--channel", "of_channel", is_flag=True, help="The token is one of a channel."
    )(command)


def _choice_options(command: _Command) -> _Command:
    """Give a command what a save asks, in the words of the API's query."""
    for option in (
        click.option(
            "--per-minute", type=click.IntRange(1, MAX_PER_MINUTE), help="With drip: so many."
        ),
        click.option(
            "--on-existing",
            type=click.Choice(MODES),
            help="What becomes of values that are overdue already.  [default: fire]",
        ),
    ):
        command = option(command)
    return command


_file_argument = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)


def _read(file: str) -> bytes:
    """Return a document; raises AppError for an empty one, such as an export that failed leaves."""
    document = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    if not document.strip():
        raise AppError("the document is empty", code="bundle_empty")
    return document


@click.command(short_help="Write all definitions as a document.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to, if not to the terminal.",
)
@_channel_option
@api_option
@json_anyway_option
def export(output: Path | None, of_channel: bool, api_url: str) -> None:
    """Write tables, triggers, workflows, rules and commands as JSON Lines, for plan and apply.

    The same definitions are the same bytes. Keys that sign, tokens and records are no part of it.
    """
    document = api_of_moderator(api_url).text(_path(of_channel))
    if output is None:
        sys.stdout.buffer.write(document)
        sys.stdout.buffer.flush()
        return
    output.write_bytes(document)
    lines = document.count(b"\n")
    say(f"{lines} lines written to {output}", err=True)


@click.command(short_help="Tell what applying a document would change.")
@_file_argument
@_choice_options
@_channel_option
@api_option
@json_option
def plan(
    file: str, of_channel: bool, api_url: str, as_json: bool, **choices: str | int | None
) -> None:
    """Tell what applying FILE (- is the standard input) would change, and what that leads to.

    Exit code 0: nothing; 2: something; 1: the document is refused.
    """
    planned = _send(api_of_moderator(api_url), f"{_path(of_channel)}/plan", _read(file), choices)
    if as_json:
        say_json(planned)
    else:
        say_plan(planned)
    if changes_of(planned):
        raise SystemExit(_CHANGES)


@click.command(short_help="Apply a document, after showing what it changes.")
@_file_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@_choice_options
@_channel_option
@api_option
@json_option
def apply(
    file: str,
    yes: bool,
    of_channel: bool,
    api_url: str,
    as_json: bool,
    **choices: str | int | None,
) -> None:
    """Apply FILE (- is the standard input): exactly the plan that is shown, or nothing.

    Refused when something was changed between the plan and the answer to it.
    """
    if not yes and (as_json or file == "-"):
        raise click.UsageError("nobody can be asked here: --yes applies without asking")
    api, document, path = api_of_moderator(api_url), _read(file), _path(of_channel)
    planned = _send(api, f"{path}/plan", document, choices)
    if not as_json:
        say_plan(planned)
    applied = {"counts": planned["counts"], "items": planned["items"]}
    if changes_of(planned):
        if not yes:
            click.confirm("Apply this?", abort=True)
        mark = {"fingerprint": planned["fingerprint"]}
        applied = _send(api, f"{path}/apply", document, {**choices, **mark})
        if not as_json:
            say(f"Applied: {counted(applied)}.")
    if as_json:
        say_json(applied)


def _path(of_channel: bool) -> str:
    return f"/{'channel' if of_channel else 'tenant'}/custom-tables/bundle"


def _send(api: Api, path: str, document: bytes, query: Mapping[str, object]) -> dict[str, Any]:
    with _refusals():
        return api.send(path, document, media=_MEDIA, query=query, repeatable=path.endswith("plan"))


@contextmanager
def _refusals() -> Iterator[None]:
    """Tell every fault of a refused document with its line."""
    try:
        yield
    except Refused as refused:
        for error in refused.errors:
            line, _, place = error["pointer"].removeprefix("/").partition("/")
            if not line.isdecimal():  # of the query: the refusal itself says it
                continue
            where = f"line {line}" + (f", /{place}" if place else "")
            say(f"{shown(where)}: {shown(error['detail'])}", err=True)
        raise
