"""Random workflows, whatever dies in between: one path, each step once, each call under one key.

``MODEL_SEED`` plays the same worlds again.
"""

import os
import secrets
from dataclasses import replace
from random import Random

import pytest

from tests.integration.workflows.known_bad import KNOWN_BAD
from tests.integration.workflows.model import play, play_all, play_many
from tests.integration.workflows.scripts import Kill, Strike
from tests.integration.workflows.stories import STORY

WORLDS = 40
CUTS = 24
_NAMES = [break_it.__name__ for break_it, _ in KNOWN_BAD]

COMMON = {
    "Kill",
    "Steal",
    "Click",
    "clicked",
    "expired",
    "clicked a wait",
    "clicked before any wait",
    "clicked at the deadline",
    "clicked just before the deadline",
}


@pytest.fixture
def seed():
    seed = int(os.environ.get("MODEL_SEED") or secrets.randbits(32))
    print(f"MODEL_SEED={seed}")
    return seed


def test_every_execution_takes_one_path_and_each_step_once(stage, seed):
    seen = play_many(stage, seed=seed, examples=WORLDS)

    assert seen.keys() >= COMMON, seen


def test_a_story_goes_on_wherever_it_is_cut(stage, seed):
    """Each run of the test cuts it at other steps; nothing but a death happens to it."""
    play(stage, STORY)  # from here on everybody is there who takes part
    steps = play(stage, STORY).steps

    for position in sorted(Random(seed).sample(range(steps), CUTS)):
        print(f"cut before step {position}")
        world = play(stage, replace(STORY, strikes=[Strike(position, Kill())]))
        assert world.seen["Kill"] == 1


@pytest.mark.parametrize("told", [told for _, told in KNOWN_BAD], ids=_NAMES)
def test_a_story_ends_well(stage, told):
    play_all(stage, told)


@pytest.mark.parametrize(("break_it", "told"), KNOWN_BAD, ids=_NAMES)
def test_what_breaks_the_promise_is_caught(stage, monkeypatch, break_it, told):
    break_it(monkeypatch)

    with pytest.raises(AssertionError):
        play_all(stage, told)
