import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from shared.domain.runs import RunStatus
from shared.queries import announcements, claims, new_runs, trigger_runs, work

_PAGE = Path(__file__).parents[3] / "docs" / "state-machines.md"
_ARROW = re.compile(r"^ +(\S+) --> (\S+) : (\w+)$", re.MULTILINE)
_OUTSIDE = "[*]"
_MODULES = (announcements, claims, new_runs, trigger_runs, work)


def _drawn():
    """Return by function the arrows of the page."""
    arrows = {}
    for source, target, function in _ARROW.findall(_PAGE.read_text("utf-8")):
        arrows.setdefault(function, set()).add((source, target))
    return arrows


def _told():
    """Return by function the arrows its docstring begins with."""
    arrows = {}
    for module in _MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            head = (function.__doc__ or "").split(":")[0]
            if "->" in head and function.__module__ == module.__name__:
                arrows[name] = set(_moves(head))
    return arrows


def _moves(head):
    for move in head.split(","):
        source, target = (side.replace("stale ", "").strip() for side in move.split("->"))
        for one in source.split(" | "):
            for other in target.split(" | "):
                yield one.strip() or _OUTSIDE, other.strip()


def test_the_docstrings_tell_the_arrows_that_are_drawn():
    drawn = {
        function: arrows
        for function, arrows in _drawn().items()
        if _OUTSIDE not in {target for _, target in arrows}
    }

    assert _told() == drawn


def test_the_drawing_the_check_and_the_literal_have_the_same_states(conn):
    (check,) = conn.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = 'trigger_run'::regclass AND conname = 'trigger_run_status_check'"
    ).fetchone()
    drawn = {state for arrows in _drawn().values() for arrow in arrows for state in arrow}

    assert drawn - {_OUTSIDE} == set(re.findall(r"'(\w+)'", check)) == set(get_args(RunStatus))


@pytest.mark.parametrize("function", ["delete_run", "delete_finished"])
def test_only_what_has_ended_is_deleted(function):
    assert _drawn()[function] == {("done", _OUTSIDE), ("failed", _OUTSIDE)}


def test_done_is_never_left_and_failed_only_by_hand():
    leaving = {
        (source, function)
        for function, arrows in _drawn().items()
        for source, target in arrows
        if source in ("done", "failed") and target != _OUTSIDE
    }

    assert leaving == {("failed", "rearm")}
