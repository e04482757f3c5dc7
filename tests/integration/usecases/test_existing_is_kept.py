"""Random tables, saves with every choice, clocks, ticks and due passes: each promise is kept.

What is consumed never fires, a drip keeps its rate, everything else fires once and in time, and
what preview called due the next tick creates.
"""

import pytest

from shared.db.connection import connect
from tests.integration.usecases.choosing_world import ChoosingWorld

STEPS = 60


@pytest.fixture
def racers(database_url):
    """Sessions for those who race."""
    opened = [connect(database_url, application_name=f"racer-{n}") for n in range(3)]
    yield opened
    for conn in opened:
        conn.close()


@pytest.mark.parametrize("seed", range(8))
def test_what_a_save_chose_for_overdue_values_is_what_becomes_of_them(conn, racers, seed):
    world = ChoosingWorld(seed, conn, racers)

    for _ in range(STEPS):
        world.step()
    world.settle()

    assert world.born > 0
