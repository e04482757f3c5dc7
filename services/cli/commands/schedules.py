"""Commands about what is due: ``tick``, ``preview``."""

from dataclasses import asdict
from typing import Any

import click

from services.cli.api import TABLES, api_of_admin, api_of_moderator, api_option, find_table
from services.cli.output import json_option, say_json, say_members, say_table
from shared.db.connection import connect
from shared.db.roles import SCANNER, require_role
from shared.observability.logs import configure_logging
from shared.settings import read_settings
from shared.usecases import tick as ticks

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
    default=ticks.TABLE_LIMIT,
    show_default=True,
    help="Tables to scan, those scanned longest ago.",
)
@click.option(
    "--record-limit",
    type=click.IntRange(1, 10_000),
    default=ticks.RECORD_LIMIT,
    show_default=True,
    help="Records of a page of a date trigger.",
)
@click.option(
    "--api",
    "api_url",
    metavar="URL",
    help="Ask this API, as the holder of ADMIN_TOKEN, instead of using DATABASE_URL.",
)
@json_option
def tick(table_limit: int, record_limit: int, api_url: str | None, as_json: bool) -> None:
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


def _tick_in_database(table_limit: int, record_limit: int) -> dict[str, Any]:
    settings = read_settings("cli")
    configure_logging(service="cli", log_format="console", level="WARNING")
    url = settings.database_url.reveal()
    require_role(url, SCANNER, application_name="duebook-cli")
    with connect(url, application_name="duebook-cli", role=SCANNER) as conn:
        result = ticks.tick(conn, table_limit=table_limit, record_limit=record_limit)
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
    click.echo(
        f"{found['name']}: {document['live_records']} records at {document['evaluated_at']} UTC"
    )
    stored = api.call("GET", f"{TABLES}/{found['id']}/triggers")["triggers"]
    names = {trigger["id"]: trigger.get("name") for trigger in stored if "id" in trigger}
    say_table(
        [{**_row(arm), "name": names.get(arm["trigger_id"])} for arm in document["triggers"]],
        {
            "trigger_id": "trigger",
            "name": "name",
            "kind": "kind",
            "due": "due now",
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
        "why": _why(arm),
        "warnings": ", ".join(arm["warnings"]) or None,
    }


def _why(arm: dict[str, Any]) -> str:
    match arm["kind"]:
        case "invalid":
            return ", ".join(arm["error_codes"])
        case "date_column_reached":
            more = f", {arm['unscanned']} records not looked at" if arm["truncated"] else ""
            return (
                f"{arm['already_fired']} fired, {arm['scheduled_for_future']} ahead, "
                f"{arm['when_filter_mismatch']} not matching, "
                f"{arm['missing_schedule_value']} missing, "
                f"{arm['invalid_schedule_value']} invalid{more}"
            )
        case _:
            active = ", a run is active" if arm["active_run"] else ""
            last = arm["last_consumed_window_at"] or "never"
            return f"window {arm['due_at'] or 'not reached'}, last {last}{active}"
