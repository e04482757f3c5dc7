"""A worker may die at any point of making slots: each is there once, and each is counted once."""

import os
import signal

import pytest

from shared.domain.columns import Column
from shared.lifecycle import wait_until
from shared.queries.notifications import notify_work
from tests.builders_db import insert_records, insert_table
from tests.e2e.failpoints import STATUS, after

SECONDS = 60
POINTS = [
    after("services.worker.performer:write_steps"),
    after("services.worker.performer:Performer._apply"),
    after("shared.effects.slot_writes:insert_slots", call=6),
    after("services.worker.performer:write_steps", call=2),
    after("services.worker.performer:Performer._apply", call=2),
]
NAMES = {"resource": "who", "start": "from", "end": "to"}
LINES = (
    Column(id="c1", name="who", type="text"),
    Column(id="c2", name="weekday", type="json"),
    Column(id="c3", name="from", type="text"),
    Column(id="c4", name="to", type="text"),
)
SLOTS = (
    Column(id="c1", name="who", type="text"),
    Column(id="c2", name="from", type="datetime"),
    Column(id="c3", name="to", type="datetime"),
    Column(id="c4", name="status", type="select", options=("open",)),
)
# Every five minutes, so that two days of them take more than one transaction.
WHOLE_DAYS = {"c2": [0, 1, 2, 3, 4, 5, 6], "c3": "00:00", "c4": "24:00"}
ROOMS = 10
AT_LEAST = 2 * 288 * ROOMS

pytestmark = pytest.mark.usefixtures("nothing_broken")


class Scene:
    """Rosters, each with a table of slots and a run that fills it."""

    def __init__(self, bench, conn):
        self._bench = bench
        self._conn = conn
        self._own = insert_table(conn)
        tenant_id = self._own.tenant_id
        self._roster = insert_table(conn, tenant_id=tenant_id, columns=LINES)
        rooms = [{"c1": f"room {number}", **WHOLE_DAYS} for number in range(ROOMS)]
        insert_records(conn, self._roster, rooms)
        self.run_id = self._target = None

    def make(self):
        self._target = insert_table(
            self._conn, tenant_id=self._own.tenant_id, columns=SLOTS, name="slots"
        )
        action = {
            "type": "materialize_slots",
            "roster": {"table_id": str(self._roster.id), "weekday": "weekday", **NAMES},
            "target": {"table_id": str(self._target.id), "status": "status", **NAMES},
            "slot_minutes": 5,
            "horizon_days": 3,
        }
        self.run_id = self._bench.insert(action, table=self._own)
        with self._conn.transaction():
            notify_work(self._conn)

    def is_done(self):
        return self._bench.run(self.run_id)["status"] == "done"

    def made(self):
        """How many slots there are."""
        [(number,)] = self._conn.execute(
            "SELECT count(*) FROM record WHERE table_id = %s", [self._target.id]
        )
        return number

    def receipt(self):
        return self._bench.run(self.run_id)["action_results"][0]


def test_wherever_a_worker_dies_every_slot_is_made_and_counted_once(bench, conn, start_worker):
    scene = Scene(bench, conn)
    heir = start_worker()
    assert wait_until(lambda: heir.health() == "ok", seconds=SECONDS)

    for point in POINTS:
        os.kill(heir.pid, signal.SIGSTOP)
        scene.make()
        dying = start_worker(*point.arguments("services.worker"))
        assert wait_until(lambda: dying.poll() is not None, seconds=SECONDS), point  # noqa: B023
        assert dying.poll() == STATUS, dying.log()
        os.kill(heir.pid, signal.SIGCONT)
        assert wait_until(scene.is_done, seconds=SECONDS), (point, bench.run(scene.run_id))

        receipt = scene.receipt()
        assert receipt["created"] == scene.made() >= AT_LEAST, point
        assert (receipt["ok"], receipt["kept"], receipt["pruned"]) == (True, 0, 0), point
