"""Worlds that are played, and held against what must be true of them."""

from collections import Counter

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.integration.workflows.oracle import Oracle
from tests.integration.workflows.scripts import scripts
from tests.integration.workflows.world import World


def play(stage, script):
    """Play a script, and check how it ends; return the world."""
    stage.begin()
    world = World(stage, script)
    world.play()
    Oracle(world).check()
    stage.end()
    return world


def play_all(stage, scripts):
    """Play one script after the other."""
    for script in scripts:
        play(stage, script)


def play_many(stage, *, seed, examples):
    """Play random scripts; return what was seen in all of them."""
    seen = Counter()

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(scripts())
    def each(script):
        seen.update(play(stage, script).seen)
        seen["worlds"] += 1

    each()
    return seen
