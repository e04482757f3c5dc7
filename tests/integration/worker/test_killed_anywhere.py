"""A worker may die at any point of a scheduled action: every step happens, and is followed once."""

import os
import signal

import pytest

from shared.lifecycle import wait_until
from shared.queries.notifications import notify_work
from tests.builders_db import LONG_AGO, insert_table
from tests.e2e.failpoints import STATUS, after, before
from tests.integration.worker.runs import api_call, notify
from tests.integration.worker.waits import a_link, act, click, start, wait_for_click

SECONDS = 60

POINTS = [
    before("shared.queries.claims:claim_due_actions"),
    after("shared.queries.claims:claim_due_actions"),
    before("shared.queries.scheduled_actions:decide_branches"),
    after("shared.queries.scheduled_actions:decide_branches"),
    after("shared.queries.claimed_actions:load_claimed"),
    before("shared.actions.notify:Notify.execute"),
    after("shared.actions.notify:Notify.execute"),
    after("shared.queries.work:finish"),
    after("services.worker.following:follow_up"),
    before("shared.effects.delays:insert_actions"),
    after("shared.effects.delays:insert_actions"),
    after("services.worker.performer:write_steps"),
    after("services.worker.performer:Performer._apply"),
    before("shared.actions.api_call:ApiCall.execute"),
    after("shared.actions.api_call:ApiCall.execute"),
    before("services.worker.committer:write_steps", call=2),
    after("services.worker.committer:write_steps", call=2),
    before("services.worker.following:after_schedule"),
    after("services.worker.delayed:schedule"),
    before("shared.actions.action:after_schedule"),
]
_UNFINISHED = """
SELECT
    (SELECT count(*) FROM trigger_run WHERE status <> 'done')
    + (SELECT count(*) FROM scheduled_action WHERE status <> 'done')
"""
_HURRY = """
UPDATE {} SET next_attempt_at = clock_timestamp(), announce_at = clock_timestamp()
WHERE status = 'pending' AND worker_losses > 0 AND next_attempt_at > clock_timestamp()
"""

pytestmark = pytest.mark.usefixtures("nothing_broken")


class Scene:
    """A contact in a workflow, and a run that delays an action until a click, again and again."""

    def __init__(self, bench, conn, receiver):
        self._bench = bench
        self._conn = conn
        self._url = receiver.url
        self._table = insert_table(conn)
        self.made = 0

    def make(self):
        tenant_id = self._table.tenant_id
        row = {"type": "create_record", "table_id": str(self._table.id), "data": {"title": "x"}}
        nodes = [
            act(notify("begun")),
            act(api_call(self._url)),
            wait_for_click(seconds=1, not_clicked=[act(row)]),
            act(notify("ended")),
        ]
        start(self._conn, nodes, tenant_id=tenant_id)
        link = a_link(self._conn, tenant_id)
        click(self._conn, link.token)
        delay = {"mode": "waitForTracking", "expiresSeconds": 60, "trackingLink": "$row.title"}
        self._bench.insert(
            notify("clicked") | {"delay": delay}, table=self._table, data={"c1": link.token}
        )
        with self._conn.transaction():
            notify_work(self._conn)
        self.made += 1

    def is_done(self):
        for relation in ("trigger_run", "scheduled_action"):
            self._conn.execute(_HURRY.format(relation))
        return self._conn.execute(_UNFINISHED).fetchone() == (0,)

    def records(self):
        """How many records the workflows have made; the runs' own were there before."""
        made = self._conn.execute("SELECT count(*) FROM record WHERE created_at > %s", [LONG_AGO])
        return made.fetchone()[0]


def test_wherever_a_worker_dies_every_step_happens_once(bench, conn, receiver, start_worker):
    scene = Scene(bench, conn, receiver)
    ports = {"ALLOWED_PORTS": str(receiver.port)}
    heir = start_worker(**ports)
    assert wait_until(lambda: heir.health() == "ok", seconds=SECONDS)

    for point in POINTS:
        os.kill(heir.pid, signal.SIGSTOP)
        scene.make()
        dying = start_worker(*point.arguments("services.worker"), **ports)
        assert wait_until(lambda: dying.poll() is not None, seconds=SECONDS), point  # noqa: B023
        assert dying.poll() == STATUS, dying.log()
        os.kill(heir.pid, signal.SIGCONT)
        assert wait_until(scene.is_done, seconds=SECONDS), (point, bench.actions())

    expected = sorted(["begun", "ended", "clicked"] * scene.made)
    assert sorted(bench.messages()) == expected
    assert scene.records() == scene.made
    assert len({request.headers["idempotency-key"] for request in receiver.requests}) == scene.made
    # A call is made again only where its worker died between the intent and the receipt.
    assert len(receiver.requests) <= scene.made + len(POINTS)
