"""Stories told on purpose: one with everything in it, and some that a fault would break."""

from dataclasses import replace

from tests.integration.worker.runs import CHATROOM
from tests.integration.worker.waits import TARGET
from tests.integration.workflows.scripts import (
    Click,
    Event,
    Kill,
    NewVersion,
    Pass,
    Script,
    Steal,
    Strike,
    Sweep,
    Work,
)
from tests.integration.workflows.trees import CHILD, HOUR

_NOTIFY = {"type": "action", "action": {"type": "notify", "chatroom_id": CHATROOM}}
_RECORD = {"type": "action", "action": {"type": "create_record"}}
_START = {"type": "action", "action": {"type": "start_workflow", "workflow": CHILD}}


def _call(answers, **more):
    headers = {"X-Answers": answers}
    call = {"type": "api_call", "method": "POST", "headers": headers}
    return {"type": "action", "action": call | more}


def _wait(**lists):
    return {"type": "wait_for_tracking", "seconds": HOUR, "target_url": TARGET} | lists


STORY = Script(
    nodes=[
        _call("503 200"),
        _wait(clicked=[_RECORD, _START], not_clicked=[_NOTIFY]),
        _wait(not_clicked=[_call("200", on_unknown="fail", on_error="continue")]),
        {
            "type": "branch",
            "when": [{"column": "event.vip", "op": "eq", "value": True}],
            "then": [{"type": "delay", "seconds": HOUR}, _NOTIFY, {"type": "stop"}],
        },
        _NOTIFY,
    ],
    edited=[_NOTIFY],
    child=[_NOTIFY],
    expires=True,
    happenings=[
        Event(0, vip=True),
        Work(4, "announced"),
        Work(4, "due"),
        Pass(1),
        Work(4, "due"),
        Click(1, "now"),
        Work(4, "announced"),
        Sweep(),
    ],
    strikes=[],
)
"""The first of the workflow's waits is clicked, the second and the plain one are not."""

_EVENT = Event(0, vip=True)
_DUE = Work(4, "due")
_DECIDING = "WITH held AS MATERIALIZED ( SELECT"
_LOADING = "SELECT action.id, action.tenant_id, action.lease_token,"
_RECORDING = "INSERT INTO scheduled_action"
_FOLLOWING = "SELECT nodes FROM workflow_version"

_AT_THE_DEADLINE = replace(STORY, happenings=[_EVENT, Pass(None), _DUE, Click(0, "before")])


def _struck(story, fate, *, kind, times=4):
    """Return a story with the same strike before each of the first steps of a kind."""
    return [replace(story, strikes=[Strike(steps, fate, kind)]) for steps in range(times)]


DEATH_BEHIND_A_STEP = _struck(STORY, Kill(), kind=_FOLLOWING)
DEATH_IN_MID_CALL = _struck(STORY, Kill(), kind="answer")
TAKEN_OVER_IN_MID_CALL = _struck(STORY, Steal(4), kind="call")
CLICK_BEFORE_THE_DECISION = _struck(_AT_THE_DEADLINE, Click(0, "before"), kind=_DECIDING)
DEATH_BEHIND_THE_DECISION = _struck(_AT_THE_DEADLINE, Kill(), kind=_LOADING)
CLICK_WHILE_A_WAIT_IS_RECORDED = _struck(
    replace(
        STORY,
        nodes=[_NOTIFY, _wait(clicked=[_NOTIFY])],
        happenings=[_EVENT, Sweep(), _DUE, _DUE, Sweep()],
    ),
    Click(1, "now"),
    kind=_RECORDING,
)
NEW_VERSION_ON_THE_WAY = [replace(STORY, happenings=[_EVENT, _DUE, NewVersion()])]
