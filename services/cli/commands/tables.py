"""Commands about tables: ``tables list``, ``show``."""

from typing import Any

import click

from services.cli.api import TABLES, api_of_moderator, api_option, find_table
from services.cli.default_group import ListsByDefault
from services.cli.output import json_option, say, say_json, say_members, say_table, to_second

_MAX_TOLD = 60


@click.group(cls=ListsByDefault)
def tables() -> None:
    """See tables. Without a command: list."""


@tables.command("list", short_help="List tables, the oldest first.")
@click.option("--trashed", is_flag=True, help="Those in the trash.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@api_option
@json_option
def list_(trashed: bool, limit: int, api_url: str, as_json: bool) -> None:
    """List tables, the oldest first."""
    api = api_of_moderator(api_url)
    query = {"trashed": "true"} if trashed else {}
    found = list(api.items(TABLES, query=query, limit=limit))
    if as_json:
        say_json(found)
        return
    say_table(
        [_row(table) for table in found],
        {"id": "table", "name": "name", "columns": "columns", "created_at": "created at"},
        empty="no tables",
    )


@tables.command("show")
@click.argument("table")
@api_option
@json_option
def show(table: str, api_url: str, as_json: bool) -> None:
    """Show TABLE (name or id) with its columns and triggers."""
    api = api_of_moderator(api_url)
    found = find_table(api, table)
    triggers = api.call("GET", f"{TABLES}/{found['id']}/triggers")["triggers"]
    if as_json:
        say_json({**found, "triggers": triggers})
        return
    say_members({key: value for key, value in found.items() if key != "columns"})
    say()
    say_table(found["columns"], {"name": "column", "type": "type"}, empty="no columns")
    say()
    say_table(
        [_trigger_row(trigger) for trigger in triggers],
        {"id": "trigger", "name": "name", "on": "on", "enabled": "on duty", "actions": "does"},
        empty="no triggers",
    )


def _row(table: dict[str, Any]) -> dict[str, Any]:
    names = ", ".join(column["name"] for column in table["columns"])
    told = names if len(names) <= _MAX_TOLD else f"{names[:_MAX_TOLD]}…"
    return {**table, "columns": told, "created_at": to_second(table["created_at"])}


def _trigger_row(trigger: object) -> dict[str, Any]:
    """Return a stored trigger as a row; one that nobody can read is told as it stands."""
    if not isinstance(trigger, dict):
        return {"name": trigger}
    schedule = trigger.get("schedule")
    kind = schedule.get("type") if isinstance(schedule, dict) else None
    actions = trigger.get("actions") or []
    return {
        **trigger,
        "on": kind or trigger.get("on"),
        "actions": ", ".join(str(action.get("type")) for action in actions),
    }
