"""A plan for people: what is created, changed and deleted, and what that leads to."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from services.cli.output import console, say, shown

_Item = Mapping[str, Any]

_SIGNS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
_OPS = {"add": ("+", "green"), "remove": ("-", "red")}
_MAX_VALUE = 200


def changes_of(plan: _Item) -> int:
    """Return how many resources a plan changes."""
    return sum(plan["counts"][action] for action in _SIGNS)


def counted(plan: _Item) -> str:
    """Return the counts of a plan in words."""
    counts = plan["counts"]
    same = counts["noop"] + counts["adopt"]
    said = f"{counts['create']} created, {counts['update']} updated, {counts['delete']} deleted"
    adopted = f" ({counts['adopt']} known by their structure)" if counts["adopt"] else ""
    return f"{said}, {same} as they are{adopted}"


def say_plan(plan: _Item) -> None:
    """Print a plan; what stays as it is is only counted."""
    out = console()
    for item in plan["items"]:
        if item["action"] in _SIGNS:
            for line in _lines(item):
                out.print(line, soft_wrap=True)
    if changes_of(plan):
        say()
        say(f"Plan: {counted(plan)}.")
    else:
        say(f"Nothing to do: {counted(plan)}.")


def _lines(item: _Item) -> Iterator[Text]:
    sign, colour = _SIGNS[item["action"]]
    where = "" if item["line"] is None else f"  (line {item['line']})"
    yield Text.assemble((f"{sign} {_named(item)}", f"bold {colour}"), (where, "dim"))
    if item["action"] == "update":
        yield from (_change(change) for change in item["changes"])
        if item["more_changes"]:
            yield Text("    … and more", style="dim")
    for problem in item["problems"]:
        yield Text(f"    ! applying will be refused: {shown(problem['detail'])}", style="red")
    if item["consequence"] is not None:
        yield Text(f"    → {_consequence(item['consequence'])}", style="cyan")


def _named(item: _Item) -> str:
    kind = item["kind"].replace("_", " ")
    name = f"'{shown(item['name'])}'" if item["name"] else item["trigger_id"] or "without a name"
    return f"{kind} {name}" + (f" of '{shown(item['table'])}'" if item["table"] else "")


def _change(change: _Item) -> Text:
    sign, colour = _OPS.get(change["op"], ("~", "yellow"))
    place = shown(change["pointer"])
    match change["op"]:
        case "add":
            said = f"{place} {_value(change['after'])}"
        case "remove":
            said = f"{place} {_value(change['before'])}"
        case op:
            how = {"rename": "renamed: ", "move": "in another order: "}.get(op, "")
            said = f"{place} {how}{_value(change['before'])} → {_value(change['after'])}"
    return Text(f"    {sign} {said}", style=colour)


def _consequence(told: _Item) -> str:
    least = "at least " if told["truncated"] else ""
    fires = told["fires_next_tick"]
    said = f"at the next tick {least}{fires} fire" + ("s" if fires == 1 else "")
    if told["oldest_due_at"]:
        said += f", the oldest due at {told['oldest_due_at']}"
    said += f"; {least}{told['fires_within_24_hours']} more within 24 hours"
    if told["consumed"]:
        said += f"; {told['consumed']} will never fire"
    if told["held_back"]:
        said += f"; {told['held_back']} held back"
    if told["first_windows"]:
        said += f"; first windows {', '.join(told['first_windows'])}"
    return said


def _value(value: object) -> str:
    text = shown(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
