"""Commands that ask about a stored trigger: ``why``, ``timeline``."""

import json
from collections.abc import Iterator
from typing import Any

import click

from services.cli.api import TABLES, api_of_moderator, api_option, find_table
from services.cli.arguments import INSTANT, ROW_ID
from services.cli.of_tables import find_trigger
from services.cli.output import json_option, say, say_json, say_members, say_table
from services.cli.spans import beside, on_the_clock

_WORDS = {
    "due_now": "it is due",
    "scheduled_for_future": "its time has not come",
    "already_fired": "it has fired already",
    "when_filter_mismatch": "a condition does not match",
    "missing_schedule_value": "the row has no date",
    "invalid_schedule_value": "the row's date cannot be read",
    "record_unreadable": "the row cannot be read",
    "record_deleted": "the row is deleted",
    "held_back": "it waits for its turn in a drip",
    "consumed_by_save": "a save has consumed what was overdue",
    "active_run": "a run of it is active",
    "matches": "the row matches",
    "config_invalid": "the trigger is broken",
    "trigger_removed": "the trigger was removed",
}
"""What a verdict means."""


def trigger_path(table: dict[str, Any], trigger: str) -> str:
    """Return the address of a trigger."""
    return f"{TABLES}/{table['id']}/triggers/{trigger}"


@click.command(short_help="Tell why a trigger fires, or does not.")
@click.argument("table")
@click.argument("trigger")
@click.argument("record", type=ROW_ID, required=False)
@api_option
@json_option
def why(table: str, trigger: str, record: int | None, api_url: str, as_json: bool) -> None:
    """Tell why TRIGGER (name or id) of TABLE fires now for RECORD, or does not.

    Triggers of a clock have no record.
    """
    api = api_of_moderator(api_url)
    found = find_table(api, table)
    path = trigger_path(found, find_trigger(api, [found], trigger)[1])
    told = api.call("GET", f"{path}/why", query={"record_id": record})
    if as_json:
        say_json(told)
        return
    fires = "fires" if told["fires"] else "does not fire"
    say(f"{told['trigger_id']} {fires}: {_WORDS[told['verdict']]}")
    say_members({key: value for key, value in _reasons(told).items() if value is not None})


def _reasons(told: dict[str, Any]) -> dict[str, Any]:
    """Return what led to a verdict, in words; what does not apply is None."""
    now = told["evaluated_at"]
    return {
        "warnings": ", ".join(told["warnings"]) or None,
        "error codes": ", ".join(told["error_codes"]) or None,
        "cell": _cell(told["cell"], now=now),
        "condition": _clause(told["clause"]),
        "ledger": _entry(told["ledger"], now=now),
        "fired before": ", ".join(one["identity"] for one in told["history"]) or None,
        "last run": _run(told["last_run"]),
        "window": _window(told["window"], now=now),
        "last window": told["last_consumed_window_at"],
        "active run": _run(told["active_run"]),
        "next": _window(told["next"], now=now),
    }


def _cell(cell: dict[str, Any] | None, *, now: str) -> str | None:
    if cell is None:
        return None
    shown = f"{cell['column']} is {json.dumps(cell['value'], ensure_ascii=False)}"
    if cell["fire_at"] is None:
        return shown
    return f"{shown}: fires at {cell['fire_at']}, {beside(cell['fire_at'], now)}"


def _clause(clause: dict[str, Any] | None) -> str | None:
    if clause is None:
        return None
    predicate = json.dumps(clause["predicate"], ensure_ascii=False)
    cell = json.dumps(clause["cell"], ensure_ascii=False)
    return f"when[{clause['index']}] {predicate} does not match {cell}"


def _entry(entry: dict[str, Any] | None, *, now: str) -> str | None:
    if entry is None:
        return None
    run = _run(entry["run"]) or ("its run is gone" if entry["by_run"] else "by a save, no run")
    consumed_at = entry["consumed_at"]
    return f"{entry['identity']} consumed at {consumed_at}, {beside(consumed_at, now)}: {run}"


def _run(run: dict[str, Any] | None) -> str | None:
    if run is None:
        return None
    error = f" ({run['error']})" if run.get("error") else ""
    return f"run {run['id']} {run['status']}{error}"


def _window(window: dict[str, Any] | None, *, now: str) -> str | None:
    if window is None:
        return None
    odd = f"; {', '.join(window['notes'])}" if window["notes"] else ""
    return f"{on_the_clock(window)}, {beside(window['at'], now)}{odd}"


@click.command(short_help="Tell what a trigger did, and what lies ahead of it.")
@click.argument("table")
@click.argument("trigger")
@click.option("--from", "since", metavar="INSTANT", help=f"Seven days ago by default; {INSTANT}.")
@click.option("--to", "until", metavar="INSTANT", help=f"In seven days by default; {INSTANT}.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@api_option
@json_option
def timeline(
    table: str,
    trigger: str,
    since: str | None,
    until: str | None,
    limit: int,
    api_url: str,
    as_json: bool,
) -> None:
    """Tell what TRIGGER (name or id) of TABLE did, with its runs, and what lies ahead of it."""
    api = api_of_moderator(api_url)
    found = find_table(api, table)
    path = trigger_path(found, find_trigger(api, [found], trigger)[1])
    query = {"from": since, "to": until}
    pages = list(api.pages(f"{path}/timeline", query=query, limit=limit))
    items = [item for page in pages for item in page["items"]]
    for note in _notes(pages[0]):
        say(note, err=True)
    if as_json:
        say_json(items)
        return
    say_table(
        [_moment(item) for item in items],
        {
            "at": "at",
            "phase": "phase",
            "record_id": "record",
            "identity": "identity",
            "what": "what",
        },
        empty="nothing in this time",
    )


def _notes(page: dict[str, Any]) -> Iterator[str]:
    """Yield what a list of moments does not say by itself."""
    codes, warnings = page["error_codes"], page["warnings"]
    if warnings:
        yield f"warnings: {', '.join(warnings)}"
    if codes:
        yield f"the trigger is broken, nothing lies ahead: {', '.join(codes)}"
    elif not page["complete"] and "trigger_removed" not in warnings:
        yield "not all rows were looked at yet: more may lie ahead"


def _moment(item: dict[str, Any]) -> dict[str, Any]:
    return {
        **item,
        "at": f"{item['at'][:19].rstrip('Z')}Z",
        "identity": item["identity"] or None,
        "what": _happened(item) if item["phase"] == "past" else _coming(item),
    }


def _happened(item: dict[str, Any]) -> str:
    return _run(item["run"]) or ("its run is gone" if item["by_run"] else "by a save, no run")


def _coming(item: dict[str, Any]) -> str:
    if item["window"] is None:
        fires = item["verdict"] == "due_now"
        return "fires" if fires else f"does not fire: {_WORDS[item['verdict']]}"
    odd = f"; {', '.join(item['window']['notes'])}" if item["window"]["notes"] else ""
    return f"fires, {on_the_clock(item['window'])}{odd}"
