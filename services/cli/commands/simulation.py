"""The command ``simulate``: what triggers would do before they are saved."""

import sys
from pathlib import Path
from typing import Any

import click

from services.cli.api import TABLES, api_of_moderator, api_option, find_table
from services.cli.output import json_option, say, say_json, say_table, shown
from services.cli.spans import beside, on_the_clock
from shared.domain.strict_json import loads
from shared.domain.triggers import EVENTS

_REFUSED = 1


@click.command(short_help="Tell what triggers would do before they are saved.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--table", required=True, help="Their table (name or id).")
@api_option
@json_option
def simulate(file: str, table: str, api_url: str, as_json: bool) -> None:
    """Tell what the triggers in FILE (- for the input) would do to all rows of a table.

    FILE has a JSON list of triggers, or an object with one under "triggers". Nothing is stored. The
    exit code is 1 if a save would be refused.
    """
    api = api_of_moderator(api_url)
    found = find_table(api, table)
    triggers = _triggers_in(file)
    told = api.call(
        "POST", f"{TABLES}/{found['id']}/triggers/simulate", body={"triggers": triggers}
    )
    if as_json:
        say_json(told)
    else:
        _say_simulation(found["name"], told, _names(triggers, arms=len(told["triggers"])))
    if told["errors"]:
        sys.exit(_REFUSED)


def _triggers_in(file: str) -> object:
    document = loads(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    return document.get("triggers") if isinstance(document, dict) else document


def _names(triggers: object, *, arms: int) -> list[str | None]:
    """Return the names of those triggers that have an arm, which are those not on events."""
    every = triggers if isinstance(triggers, list) else []
    raws = [one if isinstance(one, dict) else {} for one in every]
    names = [raw.get("name") for raw in raws if raw.get("on") not in EVENTS[1:]]
    if len(names) != arms:
        return [None] * arms
    return [name if isinstance(name, str) and name else None for name in names]


def _say_simulation(table: str, told: dict[str, Any], names: list[str | None]) -> None:
    now = told["evaluated_at"]
    say(f"{table}: {told['live_records']} records at {now} UTC; nothing is stored")
    arms = list(zip(told["triggers"], names, strict=True))
    say_table(
        [{**_simulated_row(arm, now=now), "name": name} for arm, name in arms],
        {
            "trigger": "trigger",
            "name": "name",
            "kind": "kind",
            "at_once": "fires at once",
            "since": "oldest due",
            "later": "in 24 h",
            "why": "why",
            "warnings": "warnings",
        },
        empty="no trigger is on schedule",
    )
    for arm, name in arms:
        for window in arm.get("upcoming", []):
            odd = f"  {', '.join(window['notes'])}" if window["notes"] else ""
            moment = f"{window['at']}Z, {beside(window['at'], now)}"
            say(f"  {shown(name or arm['kind'])}  {on_the_clock(window)}  ({moment}){odd}")
    if told["errors"]:
        say("a save would be refused:")
    for error in told["errors"]:
        say(f"  {error['pointer']}: {error['detail']}")


def _simulated_row(arm: dict[str, Any], *, now: str) -> dict[str, Any]:
    oldest = arm.get("oldest_due_at")
    due = arm.get("due_now")
    return {
        "trigger": arm["trigger_id"] or "new",
        "kind": arm["kind"],
        "at_once": int(due) if isinstance(due, bool) else due,
        "since": None if oldest is None else f"{oldest}Z, {beside(oldest, now)}",
        "later": arm.get("fires_within_24_hours"),
        "why": why_of_arm(arm),
        "warnings": ", ".join(arm["warnings"]) or None,
    }


def why_of_arm(arm: dict[str, Any]) -> str:
    """Return what an arm of the preview says beside its counts of what is due."""
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
