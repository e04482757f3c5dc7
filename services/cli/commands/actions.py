"""Commands about scheduled actions: ``actions list``, ``show``, ``cancel``, ``run-now`` …"""

from typing import Any

import click

from services.cli.api import Api, api_of_moderator, api_option, find_table
from services.cli.arguments import INSTANT, ROW_ID
from services.cli.default_group import ListsByDefault
from services.cli.output import json_option, say_json, say_members, say_table, to_second
from shared.errors import AppError

_ACTIONS = "/v1/scheduled-actions"
_COLUMNS = {
    "id": "action",
    "action_type": "does",
    "on": "on",
    "waits": "waits for",
    "execute_at": "execute at",
    "status": "status",
    "retry_count": "retries",
    "outcome": "outcome",
}


@click.group(cls=ListsByDefault)
def actions() -> None:
    """See actions that wait for their time or for a click, and move them.

    Without a command: list.
    """


@actions.command("list", short_help="List scheduled actions, the newest first.")
@click.option(
    "--status", type=click.Choice(["pending", "processing", "done", "failed", "cancelled"])
)
@click.option("--contact", type=ROW_ID, metavar="ID", help="Actions on this contact.")
@click.option("--table", help="Actions on records of this table (name or id).")
@click.option("--record", type=ROW_ID, metavar="ID", help="Actions on this record of --table.")
@click.option("--workflow", help="Steps of this workflow (name or id).")
@click.option("--execution", metavar="ID", help="Steps of this execution of a workflow.")
@click.option(
    "--from", "since", metavar="INSTANT", help=f"To be executed at or after it, {INSTANT}."
)
@click.option("--to", "until", metavar="INSTANT", help=f"To be executed before it, {INSTANT}.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@api_option
@json_option
def list_(
    status: str | None,
    contact: int | None,
    table: str | None,
    record: int | None,
    workflow: str | None,
    execution: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    api_url: str,
    as_json: bool,
) -> None:
    """List scheduled actions, the newest first; with --from or --to in the order of their time."""
    if record is not None and table is None:
        raise click.UsageError("--record goes with --table")
    api = api_of_moderator(api_url)
    query = {
        "status": status,
        "line_user_id": contact,
        "table_id": None if table is None else find_table(api, table)["id"],
        "record_id": record,
        "workflow_id": None if workflow is None else _find_workflow(api, workflow),
        "execution_id": execution,
        "from": since,
        "to": until,
    }
    found = list(api.items(_ACTIONS, query=query, limit=limit))
    _say(found, as_json=as_json)


@actions.command("show")
@click.argument("action", type=ROW_ID)
@api_option
@json_option
def show(action: int, api_url: str, as_json: bool) -> None:
    """Show ACTION with its settings and its result."""
    found = api_of_moderator(api_url).call("GET", f"{_ACTIONS}/{action}")
    (say_json if as_json else say_members)(found)


@actions.command("cancel")
@click.argument("action", type=ROW_ID, nargs=-1, required=True)
@api_option
@json_option
def cancel(action: tuple[int, ...], api_url: str, as_json: bool) -> None:
    """Cancel ACTION…, as long as nobody has started it."""
    _say(_move(api_of_moderator(api_url), action, "cancel"), as_json=as_json)


@actions.command("run-now")
@click.argument("action", type=ROW_ID, nargs=-1, required=True)
@click.option(
    "--branch",
    type=click.Choice(["clicked", "expired"]),
    help="The branch that a wait takes: a wait needs one.",
)
@api_option
@json_option
def run_now(action: tuple[int, ...], branch: str | None, api_url: str, as_json: bool) -> None:
    """Run ACTION… now, whatever time it waits for."""
    body = {} if branch is None else {"branch": branch}
    _say(_move(api_of_moderator(api_url), action, "run-now", body=body), as_json=as_json)


@actions.command("retry")
@click.argument("action", type=ROW_ID, nargs=-1, required=True)
@api_option
@json_option
def retry(action: tuple[int, ...], api_url: str, as_json: bool) -> None:
    """Retry ACTION… that failed, with a fresh budget."""
    _say(_move(api_of_moderator(api_url), action, "retry"), as_json=as_json)


def _find_workflow(api: Api, name_or_id: str) -> int:
    """Return the id of the workflow with this name; a number is an id, of a deleted one too.

    Raises AppError when there is none of the name.
    """
    if name_or_id.isascii() and name_or_id.isdecimal():
        return int(name_or_id)
    for workflow in api.items("/v1/workflows"):
        if workflow["name"] == name_or_id:
            return int(workflow["id"])
    raise AppError(f"there is no workflow '{name_or_id}'", code="workflow_not_found")


def _move(
    api: Api, ids: tuple[int, ...], verb: str, *, body: object = None
) -> list[dict[str, Any]]:
    return [api.call("POST", f"{_ACTIONS}/{one}/{verb}", body=body) for one in ids]


def _say(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
    else:
        say_table([_row(action) for action in found], _COLUMNS, empty="no scheduled actions")


def _row(action: dict[str, Any]) -> dict[str, Any]:
    return {
        **action,
        "on": _subject(action),
        "waits": _awaited(action),
        "execute_at": to_second(action["execute_at"]),
        "outcome": action["error"] or _outcome(action["result"]),
    }


def _subject(action: dict[str, Any]) -> str | None:
    """Return what the action is about, in the words of a table's cell."""
    if action["record_id"] is not None:
        return f"record {action['record_id']}"
    if action["line_user_id"] is not None:
        return f"contact {action['line_user_id']}"
    return None


def _awaited(action: dict[str, Any]) -> str | None:
    """Return what it waits for, or the branch that a wait has taken."""
    if action["status"] == "pending" and action["result"] and action["next_attempt_at"]:
        return f"a retry, {to_second(action['next_attempt_at'])}"
    if action["mode"] == "waitForTracking":
        return action["branch"] or "a click"
    return "its time" if action["status"] == "pending" else None


def _outcome(result: dict[str, Any] | None) -> str | None:
    if result is None:
        return None
    if result["ok"]:
        return f"{result['type']} ok"
    return f"{result['type']} failed: {result['detail']}"
