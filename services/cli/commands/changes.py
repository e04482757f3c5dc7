"""Commands about staged changes: ``changes list``, ``show``, ``approve``, ``reject``."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from services.cli.api import TABLES, api_of_moderator, api_option, find_table
from services.cli.arguments import ROW_ID
from services.cli.default_group import ListsByDefault
from services.cli.of_tables import asked_tables, find_of_table, move_each, newest_of_tables
from services.cli.output import json_option, say, say_json, say_members, say_table, to_second

_Command = TypeVar("_Command", bound=Callable[..., Any])

_WHAT = "staged change"
_COLUMNS = {
    "id": "change",
    "table": "table",
    "operation": "does",
    "record_id": "record",
    "cells": "cells",
    "status": "status",
    "created_at": "staged at",
    "outcome": "outcome",
}


@click.group(cls=ListsByDefault)
def changes() -> None:
    """See what actions want to write into tables that ask for approval; approve or reject it.

    Without a command: list.
    """


@changes.command("list", short_help="List staged changes, the newest first.")
@click.argument("table", required=False)
@click.option(
    "--status", type=click.Choice(["pending", "approved", "rejected", "applied", "failed"])
)
@click.option("--operation", type=click.Choice(["create", "update", "delete"]))
@click.option("--record", type=ROW_ID, metavar="ID", help="Changes of this record.")
@click.option("--run", type=ROW_ID, metavar="ID", help="What this run wants to write.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@api_option
@json_option
def list_(
    table: str | None,
    status: str | None,
    operation: str | None,
    record: int | None,
    run: int | None,
    limit: int,
    api_url: str,
    as_json: bool,
) -> None:
    """List staged changes, the newest first, of TABLE (name or id) or of all tables."""
    api = api_of_moderator(api_url)
    query = {"status": status, "operation": operation, "record_id": record, "run_id": run}
    tables = asked_tables(api, table)
    found = newest_of_tables(api, tables, path=_path, query=query, limit=limit)
    _say(found, as_json=as_json)


@changes.command("show")
@click.argument("change", type=ROW_ID)
@click.option("--table", help="Its table (name or id), if you know it.")
@api_option
@json_option
def show(change: int, table: str | None, api_url: str, as_json: bool) -> None:
    """Show CHANGE: what is proposed, and what was there when it was staged."""
    api = api_of_moderator(api_url)
    owner, found = find_of_table(api, table, change, path=_path, what=_WHAT)
    if as_json:
        say_json(found)
        return
    shown = {key: value for key, value in found.items() if key not in ("table_id", "proposed")}
    before = shown.pop("base")
    say_members({**shown, "table": owner["name"]})
    say()
    say_table(_cell_rows(before, found["proposed"]), _CELLS, empty="no cells")


def _review_options(command: _Command) -> _Command:
    """Give a command what a review takes."""
    for option in (
        click.argument("change", type=ROW_ID, nargs=-1),
        click.option("--table", help="Table (name or id); with --all the one that is meant."),
        click.option("--all", "every", is_flag=True, help="All pending of --table, up to 1000."),
        click.option("--reason", help="Why, for those who look at it later."),
        api_option,
        json_option,
    )[::-1]:
        command = option(command)
    return command


@changes.command("approve")
@_review_options
def approve(
    change: tuple[int, ...],
    table: str | None,
    every: bool,
    reason: str | None,
    api_url: str,
    as_json: bool,
) -> None:
    """Approve CHANGE…: a worker applies it, unless its record has changed since."""
    _review("approve", change, table, every, reason, api_url=api_url, as_json=as_json)


@changes.command("reject")
@_review_options
def reject(
    change: tuple[int, ...],
    table: str | None,
    every: bool,
    reason: str | None,
    api_url: str,
    as_json: bool,
) -> None:
    """Reject CHANGE…: nothing is written."""
    _review("reject", change, table, every, reason, api_url=api_url, as_json=as_json)


def _review(
    verb: str,
    ids: tuple[int, ...],
    table: str | None,
    every: bool,
    reason: str | None,
    *,
    api_url: str,
    as_json: bool,
) -> None:
    if every == bool(ids) or (every and table is None):
        raise click.UsageError("name changes, or --all with --table")
    api = api_of_moderator(api_url)
    body = {} if reason is None else {"reason": reason}
    if every:
        counts = api.call("POST", f"{_path(find_table(api, str(table)))}/{verb}", body=body)
        (say_json if as_json else say_members)(counts)
        return
    reviewed = move_each(api, table, ids, verb, path=_path, what=_WHAT, body=body)
    _say(reviewed, as_json=as_json)


def _path(table: dict[str, Any]) -> str:
    return f"{TABLES}/{table['id']}/staged-changes"


def _say(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
    else:
        say_table([_row(change) for change in found], _COLUMNS, empty="no staged changes")


def _row(change: dict[str, Any]) -> dict[str, Any]:
    return {
        **change,
        "cells": change["proposed"],
        "created_at": to_second(change["created_at"]),
        "outcome": change["error"] or change["reason"],
    }


_CELLS = {"column": "column", "before": "before", "proposed": "proposed"}


def _cell_rows(
    before: dict[str, Any] | None, proposed: dict[str, Any] | None
) -> list[dict[str, Any]]:
    names = proposed if before is None else before
    return [
        {"column": name, "before": (before or {}).get(name), "proposed": (proposed or {}).get(name)}
        for name in names or {}
    ]
