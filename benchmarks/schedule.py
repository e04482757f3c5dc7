"""What does one answer about a schedule cost, beside cronsim in the same run?

CPU time per call, medians over rounds that take turns (A B A B ...). The peer is asked twice:
afresh (an object for the instant, then one step), as a scheduler without memory must, and for a
further step of an object that it keeps. Needs no database.
"""

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cronsim import CronSim
from rich.console import Console
from rich.table import Table

from shared.schedule import due_window, parse_cell, parse_schedule
from shared.schedule.cells import is_missing
from shared.schedule.windows import next_window

ROUNDS = 15
START = datetime(2026, 1, 1, tzinfo=UTC)
ANCHOR = datetime(2015, 1, 1, tzinfo=UTC)
ZONE = "America/New_York"
EXPRESSIONS = {
    "every minute": "* * * * *",
    "every quarter of an hour": "*/15 * * * *",
    "weekday mornings": "0 9 * * 1-5",
    "Monday noon": "0 12 * * 1",
    "first of the month": "30 3 1 * *",
    "the 15th or a Friday": "0 9 15 * 5",
    "once a year": "0 0 25 12 *",
    "29 February": "0 0 29 2 *",
}
CELLS = ["2026-07-25", "2026-07-25 09:00", "2026-07-25T09:00:00Z", "2026-07-25T09:00:00.123+08:00"]


def main() -> None:
    """Measure, print one table, write the figures as JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    instants = random_instants(60)
    rows = [
        row
        for name, expression in EXPRESSIONS.items()
        for row in measure_expression(name, expression, instants)
    ]
    rows += measure_alone(instants)
    print_table(rows)
    if arguments.json:
        figures = {"question": "schedule", "python": platform.python_version(), "rows": rows}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def random_instants(count):
    """Return instants spread over a year, the same in every run."""
    seconds = random.Random(1)
    return [START + timedelta(seconds=seconds.randrange(365 * 86400)) for _ in range(count)]


def measure_expression(name, expression, instants):
    """Return the figures of both questions, ours and the peer's, in turns."""
    schedule = parse_schedule({"type": "cron", "expression": expression, "timezone": ZONE})
    walls = [instant.astimezone(schedule.zone) for instant in instants]
    ahead, back = (CronSim(expression, walls[0], reverse=way) for way in (False, True))
    due, afresh_back, step_back, following, afresh_ahead, step_ahead = in_turns(
        lambda: [
            due_window(schedule, anchor=ANCHOR, last_consumed=None, now=now) for now in instants
        ],
        lambda: [next(CronSim(expression, wall, reverse=True)) for wall in walls],
        lambda: [next(back) for _ in range(20)],
        lambda: [next_window(schedule, anchor=ANCHOR, after=after) for after in instants],
        lambda: [next(CronSim(expression, wall)) for wall in walls],
        lambda: [next(ahead) for _ in range(20)],
    )
    return [
        a_row(name, "due_window", due, afresh=afresh_back, step=step_back),
        a_row(name, "next_window", following, afresh=afresh_ahead, step=step_ahead),
    ]


def measure_alone(instants):
    """Return the figures that have no peer."""
    never, skipped = (
        parse_schedule({"type": "cron", "expression": expression, "timezone": ZONE})
        for expression in ("0 0 30 2 *", "30 2 8-14 3 */7")
    )
    hourly = parse_schedule({"type": "cron", "expression": "15 * * * *", "timezone": ZONE})
    daily = parse_schedule({"type": "daily", "at": "09:00", "timezone": ZONE})
    repeated = [datetime(2026, 11, 1, 6, minute, tzinfo=UTC) for minute in range(60)]
    raw = {"type": "cron", "expression": "0 9 * * 1-5", "timezone": ZONE}
    questions: list[tuple[str, str, Callable[[], list]]] = [
        ("30 February", "due_window", lambda: [due(never, now) for now in instants]),
        ("30 February", "next_window", lambda: [following(never, now) for now in instants]),
        ("only skipped hours", "next_window", lambda: [following(skipped, instants[0])]),
        ("in the repeated hour", "due_window", lambda: [due(hourly, now) for now in repeated]),
        ("daily", "due_window", lambda: [due(daily, now) for now in instants]),
        ("daily", "next_window", lambda: [following(daily, now) for now in instants]),
        ("weekday mornings", "parse_schedule", lambda: [parse_schedule(raw) for _ in range(20)]),
        ("date cells", "parse_cell", lambda: [parse_cell(c, "datetime") for c in CELLS * 50]),
        ("date cells", "is_missing", lambda: [is_missing(cell) for cell in CELLS * 50]),
    ]
    figures = in_turns(*(ask for _, _, ask in questions))
    return [
        a_row(name, question, figure)
        for (name, question, _), figure in zip(questions, figures, strict=True)
    ]


def due(schedule, now):
    """Return the due window of a trigger that is years old and never ran."""
    return due_window(schedule, anchor=ANCHOR, last_consumed=None, now=now)


def following(schedule, after):
    """Return the next window of a trigger that is years old."""
    return next_window(schedule, anchor=ANCHOR, after=after)


def in_turns(*questions):
    """Return for each question the median CPU time of one of its answers, in microseconds."""
    times = [[] for _ in questions]
    for _ in range(ROUNDS):
        for question, found in zip(questions, times, strict=True):
            started = time.process_time_ns()
            answers = question()
            found.append((time.process_time_ns() - started) / 1000 / len(answers))
    return [statistics.median(found) for found in times]


def a_row(name, question, ours, *, afresh=None, step=None):
    """Return a line of figures; the ratios say how many of ours one of the peer's costs."""
    return {
        "schedule": name,
        "question": question,
        "us": round(ours, 2),
        "cronsim_afresh_us": afresh and round(afresh, 2),
        "times_afresh": afresh and round(afresh / ours, 1),
        "cronsim_step_us": step and round(step, 2),
        "times_step": step and round(step / ours, 1),
    }


def print_table(rows):
    """Print the figures for people."""
    table = Table(title="CPU time per call, µs (median)")
    headings = (
        "schedule",
        "question",
        "Duebook",
        "cronsim afresh",
        "ratio",
        "cronsim step",
        "ratio",
    )
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position < 2 else "right")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
