"""Commands about events that were taken: ``events list``, ``show``."""

from typing import Any

import click

from services.cli.api import Api, Refused, api_of_moderator, api_option
from services.cli.arguments import INSTANT, ROW_ID
from services.cli.default_group import ListsByDefault
from services.cli.output import json_option, say, say_json, say_members, say_table, to_second

_EVENTS = "/v1/events"
_COLUMNS = {
    "id": "event",
    "name": "name",
    "line_user_id": "contact",
    "created_at": "taken at",
    "rule_ids": "rules",
    "scheduled_action_ids": "actions",
}
_ACTIONS = {
    "id": "action",
    "rule_id": "rule",
    "action_type": "does",
    "execute_at": "execute at",
    "status": "status",
    "error": "error",
}


@click.group(cls=ListsByDefault)
def events() -> None:
    """See the events that were taken, and what came of them. Without a command: list."""


@events.command("list", short_help="List events, the newest first.")
@click.option("--name", help="Events of exactly this name.")
@click.option("--from", "since", metavar="INSTANT", help=f"Taken at or after it, {INSTANT}.")
@click.option("--to", "until", metavar="INSTANT", help=f"Taken before it, {INSTANT}.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@api_option
@json_option
def list_(
    name: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    api_url: str,
    as_json: bool,
) -> None:
    """List events, the newest first, with the rules that matched and what these scheduled."""
    query = {"name": name, "from": since, "to": until}
    found = list(api_of_moderator(api_url).items(_EVENTS, query=query, limit=limit))
    if as_json:
        say_json(found)
    else:
        say_table([_row(event) for event in found], _COLUMNS, empty="no events")


@events.command("show")
@click.argument("event", type=ROW_ID)
@api_option
@json_option
def show(event: int, api_url: str, as_json: bool) -> None:
    """Show EVENT with the scheduled actions that followed, as far as they are still kept."""
    api = api_of_moderator(api_url)
    found = api.call("GET", f"{_EVENTS}/{event}")
    actions = [action for id in found["scheduled_action_ids"] if (action := _find_action(api, id))]
    if as_json:
        say_json({**found, "scheduled_actions": actions})
        return
    say_members({**found, **_numbers(found)})
    say()
    rows = [{**action, "execute_at": to_second(action["execute_at"])} for action in actions]
    say_table(rows, _ACTIONS, empty="no actions")


def _find_action(api: Api, action_id: int) -> dict[str, Any] | None:
    try:
        return api.call("GET", f"/v1/scheduled-actions/{action_id}")
    except Refused as error:
        if error.status != 404:
            raise
        return None


def _row(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "created_at": to_second(event["created_at"]), **_numbers(event)}


def _numbers(event: dict[str, Any]) -> dict[str, str | None]:
    """Return what has several ids as one text of them, as a cell and a member are told."""
    return {
        key: ", ".join(map(str, event[key])) or None for key in ("rule_ids", "scheduled_action_ids")
    }
