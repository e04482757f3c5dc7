"""A worker may die while it stages or applies: each change is there once, and applied once."""

import os
import signal
from functools import partial

import pytest

from shared.lifecycle import wait_until
from shared.queries.change_lists import ChangeFilter
from shared.queries.notifications import notify_work
from shared.queries.staged_changes import review_matching
from tests.builders_db import LONG_AGO, insert_table, statuses_of
from tests.e2e.failpoints import STATUS, after

SECONDS = 60

POINTS = [
    after("shared.effects.staged_changes:insert_change", call=2),
    after("services.worker.performer:write_steps"),
    after("services.worker.intake:_announced_changes"),
    after("services.worker.apply_change:apply"),
    after("services.worker.apply_change:mark_applied"),
    after("services.worker.apply_change:_apply"),
]
_HURRY = (
    """
    UPDATE trigger_run SET next_attempt_at = clock_timestamp(), announce_at = clock_timestamp()
    WHERE status = 'pending' AND worker_losses > 0 AND next_attempt_at > clock_timestamp()
    """,
    """
    UPDATE staged_change SET announce_at = clock_timestamp()
    WHERE status = 'approved' AND announce_at > clock_timestamp()
    """,
)

pytestmark = pytest.mark.usefixtures("nothing_broken")


class Scene:
    """Runs that propose a record and a cell, and somebody who approves all that is proposed."""

    def __init__(self, bench, conn):
        self._bench = bench
        self._conn = conn
        self._table = insert_table(conn, approval="required")
        self.made = 0

    def make(self):
        create = {
            "type": "create_record",
            "table_id": str(self._table.id),
            "data": {"title": "made"},
        }
        update = {"type": "update_record", "data": {"title": "written"}}
        self._bench.insert(create, update, table=self._table, data={"c1": "old"})
        with self._conn.transaction():
            notify_work(self._conn)
        self.made += 1

    def approve(self):
        review = {"reviewed_by": None, "reason": None, "limit": 100, "now": LONG_AGO}
        with self._conn.transaction():
            if review_matching(self._conn, self._table, ChangeFilter(), "approved", **review):
                notify_work(self._conn)

    def is_done(self):
        self.approve()
        for statement in _HURRY:
            self._conn.execute(statement)
        return (
            set(statuses_of(self._conn, "trigger_run")) == {"done"}
            and statuses_of(self._conn, "staged_change") == ["applied"] * 2 * self.made
        )


def _is_dead(scene, worker):
    scene.approve()
    return worker.poll() is not None


def test_wherever_a_worker_dies_every_change_is_applied_once(bench, conn, start_worker):
    scene = Scene(bench, conn)
    heir = start_worker()
    assert wait_until(lambda: heir.health() == "ok", seconds=SECONDS)

    for point in POINTS:
        os.kill(heir.pid, signal.SIGSTOP)
        scene.make()
        dying = start_worker(*point.arguments("services.worker"))
        assert wait_until(partial(_is_dead, scene, dying), seconds=SECONDS), point
        assert dying.poll() == STATUS, dying.log()
        os.kill(heir.pid, signal.SIGCONT)
        assert wait_until(scene.is_done, seconds=SECONDS), (point, heir.log())

    cells = conn.execute("SELECT data ->> 'c1', version FROM record ORDER BY id").fetchall()
    assert sorted(cells) == [("made", 1)] * scene.made + [("written", 2)] * scene.made
