"""Commands about records: ``records import``."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from services.cli.api import TABLES, Api, Refused, api_of_moderator, api_option, find_table
from services.cli.chunks import MEDIA, Chunk, Format, cut, format_of, read_lines
from services.cli.output import console, json_option, say, say_json
from shared.errors import Unavailable
from shared.lifecycle import wait_until

_REFUSED_SHOWN = 10
# An upload whose answer was lost may still be at work when it is sent again.
_WAIT_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class _Outcome:
    created: int = 0
    refused: int = 0
    refused_lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, answer: dict[str, Any], chunk: Chunk) -> None:
        self.created += answer["created"]
        self.refused += answer["refused"]
        for line in answer["refused_lines"]:
            self.refused_lines.append({**line, "line": line["line"] + chunk.line_offset})


@click.group()
def records() -> None:
    """Bring records into tables."""


@records.command("import", short_help="Create records from CSV or JSON Lines.")
@click.argument("table")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--format",
    type=click.Choice(["csv", "jsonl"]),
    help="CSV (a header of column names) or JSON Lines.  [default: by the file's name]",
)
@click.option(
    "--chunk",
    type=click.IntRange(1, 100_000),
    default=5000,
    show_default=True,
    help="Records of one upload.",
)
@click.option("--null", metavar="TEXT", help="CSV: a field that is exactly TEXT is empty.")
@click.option("--again", is_flag=True, help="Import records that were imported before once more.")
@api_option
@json_option
def import_(
    table: str,
    file: Path,
    format: Format | None,
    chunk: int,
    null: str | None,
    again: bool,
    api_url: str,
    as_json: bool,
) -> None:
    """Create records of TABLE (name or id) from FILE: CSV or JSON Lines, .gz too.

    What was interrupted may be started again: for a day, records of the same file that were
    stored are not stored twice. Exit code 1 when records were refused.
    """
    api = api_of_moderator(api_url)
    found = find_table(api, table)
    path = f"{TABLES}/{found['id']}/records/bulk"
    format = format or format_of(file)
    salt = secrets.token_hex(16) if again else str(found["id"])
    outcome = _Outcome()
    for part in _chunks(file, format, records=chunk, null=null, quiet=as_json):
        outcome.add(_upload(api, path, part, media=MEDIA[format], salt=salt), part)
    _tell(outcome, as_json=as_json)
    if outcome.refused:
        raise SystemExit(1)


def _chunks(
    file: Path, format: Format, *, records: int, null: str | None, quiet: bool
) -> Iterator[Chunk]:
    """Yield the chunks of a file, under a bar that shows how far it has been read."""
    bar = Progress(
        TextColumn(file.name),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[records]:,} records"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        disable=quiet or not console(stderr=True).is_terminal,
    )
    with file.open("rb") as raw, bar:
        task = bar.add_task("", total=file.stat().st_size, records=0)
        done = 0
        for chunk in cut(read_lines(file, raw), format, records=records, null=null):
            yield chunk
            done += chunk.records
            bar.update(task, completed=raw.tell(), records=done)


def _upload(api: Api, path: str, chunk: Chunk, *, media: str, salt: str) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []

    def answered() -> bool:
        try:
            answers.append(api.upload(path, chunk.body, media=media, key=chunk.key(salt=salt)))
        except Refused as error:
            if error.code != "upload_in_progress":
                raise
        return bool(answers)

    if not wait_until(answered, seconds=_WAIT_SECONDS, every_seconds=0.5):
        raise Unavailable("an earlier upload of the same records is still at work")
    return answers[0]


def _tell(outcome: _Outcome, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "created": outcome.created,
                "refused": outcome.refused,
                "refused_lines": outcome.refused_lines,
            }
        )
        return
    say(f"{outcome.created} records created, {outcome.refused} refused")
    for line in outcome.refused_lines[:_REFUSED_SHOWN]:
        say(f"  line {line['line']}: {line['detail']}", err=True)
    if outcome.refused > _REFUSED_SHOWN:
        say(f"  and {outcome.refused - _REFUSED_SHOWN} more", err=True)
