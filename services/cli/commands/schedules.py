"""Commands about what is due: ``tick``, ``preview``."""

from dataclasses import asdict
from typing import Any

import click

from services.cli.api import (
    TABLES,
    Api,
    admin_api_option,
    api_of_admin,
    api_of_moderator,
    api_option,
    find_table,
)
from services.cli.commands.questions import trigger_path
from services.cli.commands.simulation import why_of_arm
from services.cli.output import json_option, say, say_json, say_members, say_table
from services.cli.spans import beside, on_the_clock

_COUNTS = (
    "tables_scanned",
    "tables_with_schedules",
    "runs_created",
    "trigger_runs_requeued",
    "staged_changes_requeued",
)


@click.command(short_help="Create the runs that are due now.")
@click.option(
    "--table-limit",
    type=click.IntRange(1, 2000),
    help="Tables to scan, those scanned longest ago.  [default: 200]",
)
@click.option(
    "--record-limit",
    type=click.IntRange(1, 10_000),
    help="Records of a page of a date trigger.  [default: 1000]",
)
@admin_api_option
@json_option
def tick(
    table_limit: int | None, record_limit: int | None, api_url: str | None, as_json: bool
) -> None:
    """Create the runs that are due now: one tick, beside the scanner or instead of it."""
    counts = (
        _tick_in_database(table_limit, record_limit)
        if api_url is None
        else api_of_admin(api_url).call(
            "POST",
            "/root/custom-tables/run-due-triggers",
            query={"table_limit": table_limit, "record_limit": record_limit},
        )
    )
    (say_json if as_json else say_members)(counts)


def _tick_in_database(table_limit: int | None, record_limit: int | None) -> dict[str, Any]:
    # Here, since no other command has to wait for settings and the scheduler.
    from shared.db.connection import connect
    from shared.db.roles import SCANNER, require_role
    from shared.observability.logs import configure_logging
    from shared.settings import read_settings
    from shared.usecases import tick as ticks

    settings = read_settings("cli")
    configure_logging(service="cli", log_format="console", level="WARNING")
    url = settings.database_url.reveal()
    require_role(url, SCANNER, application_name="duebook-cli")
    with connect(url, application_name="duebook-cli", role=SCANNER) as conn:
        result = ticks.tick(
            conn,
            table_limit=table_limit or ticks.TABLE_LIMIT,
            record_limit=record_limit or ticks.RECORD_LIMIT,
        )
    told = asdict(result)
    return {name: told[name] for name in _COUNTS}


@click.command(short_help="Tell what the next tick would do, and why.")
@click.argument("table")
@click.option(
    "--record-limit",
    type=click.IntRange(1, 10_000),
    help="Records of a date trigger to look at.  [default: 1000]",
)
@api_option
@json_option
def preview(table: str, record_limit: int | None, api_url: str, as_json: bool) -> None:
    """Tell what the next tick would do with TABLE (its name or id), and why."""
    api = api_of_moderator(api_url)
    found = find_table(api, table)
    document = api.call(
        "GET",
        f"{TABLES}/{found['id']}/triggers/schedule-preview",
        query={"record_limit": record_limit},
    )
    if as_json:
        say_json(document)
        return
    say(f"{found['name']}: {document['live_records']} records at {document['evaluated_at']} UTC")
    stored = api.call("GET", f"{TABLES}/{found['id']}/triggers")["triggers"]
    names = {trigger["id"]: trigger.get("name") for trigger in stored if "id" in trigger}
    say_table(
        [
            {
                **_row(arm),
                "name": names.get(arm["trigger_id"]),
                "next": _next_window(api, found, arm),
            }
            for arm in document["triggers"]
        ],
        {
            "trigger_id": "trigger",
            "name": "name",
            "kind": "kind",
            "due": "due now",
            "next": "next window",
            "why": "why",
            "warnings": "warnings",
        },
        empty="no trigger is on schedule",
    )


def _row(arm: dict[str, Any]) -> dict[str, Any]:
    return {
        "trigger_id": arm["trigger_id"],
        "kind": arm["kind"],
        "due": arm.get("due_now"),
        "why": why_of_arm(arm),
        "warnings": ", ".join(arm["warnings"]) or None,
    }


def _next_window(api: Api, table: dict[str, Any], arm: dict[str, Any]) -> str | None:
    """Return when a clock trigger fires next, on the clock of its zone and from now."""
    if arm["kind"] not in ("interval", "daily", "cron"):
        return None
    told = api.call("GET", f"{trigger_path(table, arm['trigger_id'])}/why")
    window = told["next"]
    if window is None:
        return "never"
    return f"{on_the_clock(window)}, {beside(window['at'], told['evaluated_at'])}"
