"""Ways to break the promise: the product's functions as they must not be.

Each is put in the place of the product's own, and the model has to see it.
"""

import hashlib

from services.worker import action_script
from services.worker.following import NextStep
from shared.effects import workflow_steps
from shared.queries import claims, scheduled_actions, tracking, work
from tests.integration.workflows import stories, world

_NEWEST = "SELECT max(version) FROM workflow_version WHERE workflow_id = %s"


def next_step_outside_the_finishing_transaction(monkeypatch):
    """The step ends, and its successor is recorded when that has committed."""
    record = NextStep.record
    monkeypatch.setattr(NextStep, "record", lambda self, conn: None)
    monkeypatch.setattr(NextStep, "settle", record)


def branch_decided_in_the_claim(monkeypatch):
    """Claim and decision see one snapshot, taken before the clock was read."""
    decide = scheduled_actions.decide_branches

    def deciding(claim):
        def claim_and_decide(conn, *arguments, **lease):
            with conn.transaction():
                conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                ids = claim(conn, *arguments, **lease)
                decide(conn, [(id, lease["lease_token"]) for id in ids])
            return ids

        return claim_and_decide

    for name in ("claim_actions", "claim_due_actions"):
        monkeypatch.setattr(claims, name, deciding(getattr(claims, name)))
    monkeypatch.setattr(scheduled_actions, "decide_branches", lambda conn, leases: None)


def branch_decided_again(monkeypatch):
    """Whoever claims a wait that is decided decides it anew."""
    monkeypatch.setattr(
        scheduled_actions,
        "_DECIDE_BRANCHES",
        _without(scheduled_actions._DECIDE_BRANCHES, "AND branch IS NULL"),
    )


def finish_without_token(monkeypatch):
    """A worker ends what it once held, whoever holds it now."""
    statements = {
        kind: _without(text, work._OF_ONE) + "WHERE work.id = %(id)s RETURNING work.id"
        for kind, text in work._FINISH_ONE.items()
    }
    monkeypatch.setattr(work, "_FINISH_ONE", statements)

    def finish(conn, finishes, *, kind):
        return [id for one in finishes for id in work._finish_one(conn, one, kind)]

    monkeypatch.setattr(work, "finish", finish)


def call_without_intent(monkeypatch):
    """Nothing tells that a call may have been sent."""
    monkeypatch.setattr(
        work,
        "mark_intents",
        lambda conn, *, kind, lease_token, intents: [id for id, _ in intents],
    )


def key_of_each_start(monkeypatch):
    """The receiver cannot tell that a call is made once more."""

    def key(action):
        return hashlib.sha256(f"{action.origin_key} {action.starts}".encode()).hexdigest()

    monkeypatch.setattr(action_script, "_key", key)


def steps_of_the_newest_version(monkeypatch):
    """An execution goes on by nodes that were saved after its start."""
    read = workflow_steps.read_nodes

    def read_newest(conn, workflow_id, version):
        [newest] = conn.execute(_NEWEST, [workflow_id]).fetchone()
        return read(conn, workflow_id, newest)

    monkeypatch.setattr(workflow_steps, "read_nodes", read_newest)


def wait_recorded_behind_a_click(monkeypatch):
    """Neither the second look nor the lock on the link: a click counts as dealt with too early."""
    monkeypatch.setattr(NextStep, "settle", lambda self, conn: None)
    monkeypatch.setattr(world, "settle", lambda *arguments, **keywords: None)
    monkeypatch.setattr(tracking, "lock_untried", lambda conn, link_id: True)


KNOWN_BAD = (
    (next_step_outside_the_finishing_transaction, stories.DEATH_BEHIND_A_STEP),
    (branch_decided_in_the_claim, stories.CLICK_BEFORE_THE_DECISION),
    (branch_decided_again, stories.DEATH_BEHIND_THE_DECISION),
    (finish_without_token, stories.TAKEN_OVER_IN_MID_CALL),
    (call_without_intent, stories.DEATH_IN_MID_CALL),
    (key_of_each_start, [stories.STORY]),
    (steps_of_the_newest_version, stories.NEW_VERSION_ON_THE_WAY),
    (wait_recorded_behind_a_click, stories.CLICK_WHILE_A_WAIT_IS_RECORDED),
)
"""Each with stories of which one shows it."""


def _without(statement, part):
    assert part in statement
    return statement.replace(part, "")
