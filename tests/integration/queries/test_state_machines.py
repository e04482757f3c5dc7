import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from shared.domain.runs import RunStatus
from shared.domain.scheduled_actions import ActionStatus
from shared.domain.staged_changes import ChangeStatus
from shared.queries import (
    action_moves,
    announcements,
    approved_changes,
    claims,
    new_runs,
    scheduled_actions,
    staged_changes,
    tracking,
    trigger_runs,
    work,
)
from shared.queries.life_cycle import HELD

_PAGE = Path(__file__).parents[3] / "docs" / "state-machines.md"
_DRAWING = re.compile(r"^## (\w+)$.*?```mermaid\n(.*?)```", re.MULTILINE | re.DOTALL)
_ARROW = re.compile(r"^ +(\S+) --> (\S+) : (\w+)$", re.MULTILINE)
_OUTSIDE = "[*]"
_STATES = {
    "trigger_run": set(get_args(RunStatus)),
    "scheduled_action": set(get_args(ActionStatus)),
    "staged_change": set(get_args(ChangeStatus)),
}
_OF_BOTH = (announcements, claims, work)
_MODULES = {
    "trigger_run": (*_OF_BOTH, new_runs, trigger_runs),
    "scheduled_action": (*_OF_BOTH, action_moves, scheduled_actions, tracking),
    "staged_change": (approved_changes, staged_changes),
}
_TERMINAL = {"done", "failed", "cancelled", "rejected", "applied"}


@pytest.fixture(params=list(_STATES))
def table(request):
    return request.param


def _drawn(table):
    """Return by function the arrows of a table's drawing."""
    arrows = {}
    drawing = dict(_DRAWING.findall(_PAGE.read_text("utf-8")))[table]
    for source, target, function in _ARROW.findall(drawing):
        arrows.setdefault(function, set()).add((source, target))
    return arrows


def _told(table):
    """Return by function the arrows its docstring begins with, as far as they are this table's."""
    arrows = {}
    for module in _MODULES[table]:
        for name, moves in _told_by(module):
            own = {move for move in moves(HELD.get(table)) if _is_of(table, move)}
            if own:
                arrows[name] = own
    return arrows


def _told_by(module):
    for name, function in inspect.getmembers(module, inspect.isfunction):
        head = (function.__doc__ or "").split(":")[0]
        if "->" in head and function.__module__ == module.__name__:
            yield name, lambda held, head=head: set(_moves(head, held))


def _moves(head, held):
    for move in head.split(","):
        source, target = (side.replace("stale ", "").strip() for side in move.split("->"))
        for one in source.split(" | "):
            for other in target.split(" | "):
                yield tuple(
                    held if state == "held" else state or _OUTSIDE
                    for state in (one.strip(), other.strip())
                )


def _is_of(table, move):
    return set(move) <= _STATES[table] | {_OUTSIDE}


def test_the_docstrings_tell_the_arrows_that_are_drawn(table):
    drawn = {
        function: arrows
        for function, arrows in _drawn(table).items()
        if _OUTSIDE not in {target for _, target in arrows}
    }

    assert _told(table) == drawn


def test_every_arrow_that_is_told_is_one_of_a_table():
    strays = {
        (name, move)
        for module in {module for modules in _MODULES.values() for module in modules}
        for name, moves in _told_by(module)
        if not any(_is_of(table, move) for table in _STATES for move in moves(HELD.get(table)))
        for move in moves("held")
    }

    assert strays == set()


def test_the_drawing_the_check_and_the_literal_have_the_same_states(conn, table):
    (check,) = conn.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = %s::regclass AND conname = %s",
        [table, f"{table}_status_check"],
    ).fetchone()
    drawn = {state for arrows in _drawn(table).values() for arrow in arrows for state in arrow}

    assert drawn - {_OUTSIDE} == set(re.findall(r"'(\w+)'", check)) == _STATES[table]


def test_only_what_has_ended_is_deleted(table):
    deleted = {
        function: {source for source, target in arrows if target == _OUTSIDE}
        for function, arrows in _drawn(table).items()
        if _OUTSIDE in {target for _, target in arrows}
    }

    assert deleted.keys() >= {"delete_finished"}
    assert all(sources == _STATES[table] & _TERMINAL for sources in deleted.values())


def test_done_is_never_left_and_failed_only_by_hand(table):
    leaving = {
        (source, function)
        for function, arrows in _drawn(table).items()
        for source, target in arrows
        if source in _TERMINAL and target != _OUTSIDE
    }

    assert leaving == ({("failed", "rearm")} if table in HELD else set())
