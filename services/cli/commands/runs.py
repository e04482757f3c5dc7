"""Commands about runs: ``runs list``, ``show``, ``retry``, ``cancel``."""

from typing import Any

import click

from services.cli.api import TABLES, Api, api_of_moderator, api_option, find_table
from services.cli.arguments import ROW_ID
from services.cli.default_group import ListsByDefault
from services.cli.of_tables import (
    asked_tables,
    find_of_table,
    find_trigger,
    move_each,
    newest_of_tables,
)
from services.cli.output import json_option, say, say_json, say_members, say_table, to_second

_WHAT = "run"
_COLUMNS = {
    "id": "run",
    "table": "table",
    "kind": "kind",
    "record_id": "record",
    "scheduled_for": "scheduled for",
    "status": "status",
    "attempts": "attempts",
    "outcome": "outcome",
}
_RECEIPT = ("type", "ok", "attempts", "finished_at")


@click.group(cls=ListsByDefault)
def runs() -> None:
    """See the runs of triggers, retry and cancel them. Without a command: list."""


@runs.command("list", short_help="List runs, the newest first.")
@click.argument("table", required=False)
@click.option("--status", type=click.Choice(["pending", "running", "done", "failed"]))
@click.option("--stuck", is_flag=True, help="Failed, or running without a sign of life for 300 s.")
@click.option("--trigger", help="Runs of this trigger (name or id).")
@click.option("--record", type=ROW_ID, metavar="ID", help="Runs of this record.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@api_option
@json_option
def list_(
    table: str | None,
    status: str | None,
    stuck: bool,
    trigger: str | None,
    record: int | None,
    limit: int,
    api_url: str,
    as_json: bool,
) -> None:
    """List runs, the newest first, of TABLE (name or id) or of all tables."""
    api = api_of_moderator(api_url)
    tables = asked_tables(api, table)
    if trigger is not None:
        tables, trigger = find_trigger(api, tables, trigger)
    query = {
        "status": "stuck" if stuck else status,
        "trigger_id": trigger,
        "record_id": record,
    }
    found = newest_of_tables(api, tables, path=_path, query=query, limit=limit)
    _say(found, as_json=as_json)


@runs.command("show")
@click.argument("run", type=ROW_ID)
@click.option("--table", help="Its table (name or id), if you know it.")
@api_option
@json_option
def show(run: int, table: str | None, api_url: str, as_json: bool) -> None:
    """Show RUN with its receipts."""
    api = api_of_moderator(api_url)
    owner, found = find_of_table(api, table, run, path=_path, what=_WHAT)
    if as_json:
        say_json(found)
        return
    shown = {key: value for key, value in found.items() if key not in ("table_id", "snapshot")}
    receipts = shown.pop("action_results")
    say_members({**shown, "table": owner["name"], "snapshot": found["snapshot"]})
    say()
    say_table(
        [_receipt_row(receipt) for receipt in receipts],
        {
            "type": "action",
            "ok": "ok",
            "attempts": "attempts",
            "finished_at": "finished at",
            "told": "told",
        },
        empty="no action has been executed",
    )


@runs.command("retry")
@click.argument("run", type=ROW_ID, nargs=-1)
@click.option("--table", help="Table (name or id); with --all the one whose runs are retried.")
@click.option("--all", "every", is_flag=True, help="All failed runs of --table, up to 1000.")
@api_option
@json_option
def retry(
    run: tuple[int, ...], table: str | None, every: bool, api_url: str, as_json: bool
) -> None:
    """Retry RUN…: same identity, same frozen definition, a fresh budget."""
    _named_or_all(run, table, every=every)
    api = api_of_moderator(api_url)
    if every:
        counts = api.call("POST", f"{_path(find_table(api, str(table)))}/retry", body={})
        (say_json if as_json else say_members)(counts)
        return
    retried = move_each(api, table, run, "retry", path=_path, what=_WHAT)
    _say(retried, as_json=as_json)


@runs.command("cancel")
@click.argument("run", type=ROW_ID, nargs=-1)
@click.option("--table", help="Table (name or id); with --all the one whose runs are cancelled.")
@click.option("--all", "every", is_flag=True, help="All pending runs of --table.")
@api_option
@json_option
def cancel(
    run: tuple[int, ...], table: str | None, every: bool, api_url: str, as_json: bool
) -> None:
    """Cancel RUN…, as long as nobody has started it. What it was for stays consumed."""
    _named_or_all(run, table, every=every)
    api = api_of_moderator(api_url)
    if every:
        cancelled_in_all = _cancel_all(api, find_table(api, str(table)))
        (say_json if as_json else say_members)({"cancelled": cancelled_in_all})
        return
    cancelled = move_each(api, table, run, "cancel", path=_path, what=_WHAT)
    _say(cancelled, as_json=as_json)


def _cancel_all(api: Api, table: dict[str, Any]) -> int:
    """Cancel what is pending, as much as the API takes in a call; return how many it were.

    Where a later call fails, say how many it were until then.
    """
    cancelled = 0
    while True:
        try:
            counts = api.call("POST", f"{_path(table)}/cancel", body={})
        except (Exception, KeyboardInterrupt):
            if cancelled:
                say(f"{cancelled} runs are cancelled so far", err=True)
            raise
        cancelled += int(counts["cancelled"])
        if counts["cancelled"] == 0 or counts["cancelled"] == counts["matched"]:
            return cancelled


def _named_or_all(ids: tuple[int, ...], table: str | None, *, every: bool) -> None:
    if every == bool(ids) or (every and table is None):
        raise click.UsageError("name runs, or --all with --table")


def _path(table: dict[str, Any]) -> str:
    return f"{TABLES}/{table['id']}/trigger-runs"


def _say(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
    else:
        say_table([_row(run) for run in found], _COLUMNS, empty="no runs")


def _row(run: dict[str, Any]) -> dict[str, Any]:
    receipts = ", ".join(
        f"{receipt['type']} {'ok' if receipt['ok'] else 'failed'}"
        for receipt in run["action_results"]
    )
    return {
        **run,
        "scheduled_for": to_second(run["scheduled_for"]),
        "outcome": run["error"] or receipts or None,
    }


def _receipt_row(receipt: dict[str, Any]) -> dict[str, Any]:
    told = {
        key: value
        for key, value in receipt.items()
        if key not in (*_RECEIPT, "started_at", "detail")
    }
    return {**receipt, "told": receipt.get("detail") or told or None}
