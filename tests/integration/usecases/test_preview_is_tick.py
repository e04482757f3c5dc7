"""Preview, then tick: what the one called due is what the other creates, and nothing fires twice.

Random tables, triggers of every kind, edits, clocks; ticks alone, racing, and beside the due pass.
"""

import pytest

from shared.db.connection import connect
from tests.integration.usecases.random_world import World

STEPS = 60


@pytest.fixture
def racers(database_url):
    """Sessions for those who race."""
    opened = [connect(database_url, application_name=f"racer-{n}") for n in range(3)]
    yield opened
    for conn in opened:
        conn.close()


@pytest.mark.parametrize("seed", range(12))
def test_what_preview_calls_due_the_next_tick_creates_and_nothing_fires_twice(conn, racers, seed):
    world = World(seed, conn, racers)

    for _ in range(STEPS):
        world.step()
    world.settle()

    assert world.born > 0
