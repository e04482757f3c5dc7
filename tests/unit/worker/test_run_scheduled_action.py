from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.worker.action_script import ActionScript
from services.worker.following import NextStep, OnExpiry
from services.worker.run_scheduled_action import begin_action
from services.worker.steps import Finish, Postpone
from shared.domain.scheduled_actions import ClaimedAction, Execution
from shared.tracking.click_store import PostgresClicks
from tests.builders import NOW, TENANT_ID

DEADLINE = NOW + timedelta(hours=1)
NOTIFY = {"type": "notify", "chatroom_id": str(UUID(int=1)), "message": "x"}
STEP = Execution(
    id=UUID(int=0xE),
    workflow_id=3,
    workflow_version=2,
    node_path="1",
    context={"sum": 1},
    started_at=NOW,
)


def an_action(**parts):
    """Return a due action without a subject."""
    action = {
        "id": 1,
        "tenant_id": TENANT_ID,
        "lease_token": UUID(int=0xC),
        "attempts": 1,
        "starts": 1,
        "worker_losses": 0,
        "depth": 0,
        "open_action": None,
        "action_results": [],
        "mode": "normal",
        "branch": None,
        "execute_at": NOW,
        "expires_at": None,
        "action_type": "notify",
        "action_config": NOTIFY,
        "source_config": None,
        "on_expire": None,
        "origin_key": "origin",
        "context": {},
        "definition_hash": None,
        "execution": None,
        "line_user": None,
        "line_user_id": None,
        "table_id": None,
        "table_lives": None,
        "record_id": None,
        "record": None,
        "run_id": None,
        "event_id": None,
        "created_at": NOW,
    }
    return ClaimedAction(**action | parts)


def a_wait(**parts):
    wait = {"mode": "waitForTracking", "execute_at": DEADLINE, "expires_at": DEADLINE}
    return an_action(**wait | parts)


def begun(action, *, now=NOW):
    return begin_action(action, None, clicks=PostgresClicks(), now=now)


def context_of(script):
    return script.context(0, now=NOW, services=Services, connect=None)


class Services:
    public_url = "https://links.example"


def test_an_action_without_conditions_or_subject_is_executed():
    script = begun(an_action())

    assert isinstance(script, ActionScript)
    assert (script.actions, script.follow) == ([NOTIFY], None)


def test_a_step_is_followed_by_the_next():
    assert isinstance(begun(an_action(execution=STEP)).follow, NextStep)


@pytest.mark.parametrize("type", ["delay", "wait_for_tracking"])
def test_a_step_that_only_waited_ends_and_is_followed(type):
    wait = {"delay": an_action, "wait_for_tracking": a_wait}[type]
    branch = "clicked" if type == "wait_for_tracking" else None

    end = begun(wait(action_type=type, action_config={}, execution=STEP, branch=branch))

    assert isinstance(end, Finish)
    assert (end.status, end.error, end.follow.branch) == ("done", None, branch)
    [receipt] = end.receipts
    assert (receipt["type"], receipt["ok"], receipt.get("branch")) == (type, True, branch)


def test_a_clicked_wait_executes_its_action_and_an_expired_one_what_is_set_for_that():
    clicked = begun(a_wait(branch="clicked", on_expire=[NOTIFY]))
    expired = begun(a_wait(branch="expired", on_expire=[NOTIFY]))

    assert isinstance(clicked, ActionScript)
    assert (expired.status, type(expired.follow)) == ("done", OnExpiry)


def test_a_wait_that_expired_with_nothing_set_for_that_is_called_off():
    end = begun(a_wait(branch="expired"))

    assert (end.status, end.error, end.receipts) == ("cancelled", "nobody clicked in time", None)


@pytest.mark.parametrize(("early", "seconds"), [(600, 600), (0.25, 1), (-5, 1)])
def test_a_wait_that_is_not_decided_waits_until_its_deadline(early, seconds):
    step = begun(a_wait(), now=DEADLINE - timedelta(seconds=early))

    assert isinstance(step, Postpone)
    assert (step.delay_seconds, step.receipts) == (seconds, None)


@pytest.mark.parametrize(
    "subject", [{"line_user_id": 5}, {"table_lives": False}, {"record_id": 7, "table_lives": True}]
)
@pytest.mark.parametrize("branch", [None, "clicked", "expired"])
def test_an_action_whose_subject_is_gone_is_called_off_whatever_was_to_come(subject, branch):
    make = an_action if branch is None else a_wait
    end = begun(make(**subject, branch=branch, on_expire=[NOTIFY], source_config={"when": []}))

    assert (end.status, end.error) == ("cancelled", "subject no longer exists")


def test_the_key_is_of_the_cause_and_the_tenant_and_not_of_the_row():
    key = context_of(begun(an_action())).idempotency_key

    assert key == context_of(begun(an_action(id=2, starts=5))).idempotency_key
    others = [an_action(origin_key="other"), an_action(tenant_id=UUID(int=9))]
    assert len({key, *(context_of(begun(other)).idempotency_key for other in others)}) == 3
    assert len(key) == 64


def test_the_event_of_a_workflow_is_what_it_was_given():
    context = context_of(begun(an_action(execution=STEP, links={"offer": "t" * 32})))

    assert context.template.event == {"sum": 1}
    assert context.template.links == {"offer": f"https://links.example/t/{'t' * 32}"}
    assert context.about["data"]["event"] == {"id": None, "name": None, "data": {"sum": 1}}
    assert context.about["data"]["scheduled_action"]["workflow"] == {
        "id": 3,
        "version": 2,
        "execution_id": str(STEP.id),
        "node_path": "1",
    }


def test_what_an_expired_wait_runs_has_keys_of_its_own_and_the_waits_subject():
    later = NOTIFY | {"delay": {"seconds": 60}}
    wait = a_wait(
        branch="expired",
        on_expire=[NOTIFY, later],
        depth=3,
        event_id=4,
        rule_id=6,
        context={"a": 1},
    )

    first, second = begun(wait).follow.actions(now=NOW)
    again, _ = begun(wait).follow.actions(now=NOW + timedelta(hours=1))

    assert (first.execute_at, first.urgent) == (NOW, True)
    assert (second.execute_at, second.urgent) == (NOW + timedelta(seconds=60), False)
    assert second.action_config == NOTIFY
    assert first.origin_key == again.origin_key != second.origin_key
    assert (first.depth, first.event_id, first.rule_id, first.context) == (3, 4, 6, {"a": 1})


def test_an_action_of_a_run_tells_of_that_run():
    run = {"id": 41, "scheduled_for": "2026-01-01T00:00:00Z"}

    template = context_of(begun(an_action(context={"run": run}))).template

    assert template.run_id == 41
    assert template.scheduled_for == datetime(2026, 1, 1, tzinfo=UTC)
    assert template.event is None


def test_an_action_of_a_workflow_that_nobody_clicked_for_is_passed_over():
    alone = begun(a_wait(branch="expired", execution=STEP))
    replaced = begun(a_wait(branch="expired", execution=STEP, on_expire=[NOTIFY]))

    assert (alone.status, alone.error) == ("cancelled", "nobody clicked in time")
    assert alone.follow.branch is None
    assert (replaced.status, replaced.follow.then.branch) == ("done", None)
    [child] = replaced.follow.actions(now=NOW)
    assert (child.execution_id, child.context["event"]) == (None, {"sum": 1})


@pytest.mark.parametrize(("held", "executed"), [(True, True), (False, False)])
def test_an_action_of_a_workflow_runs_if_its_branches_are_decided_as_before(held, executed):
    when = [{"column": "event.sum", "op": "eq", "value": 1}]
    conditions = {"branches": [{"when": when, "held": held}]}

    begin = begun(an_action(execution=STEP, source_config=conditions))

    assert isinstance(begin, ActionScript) is executed
    assert executed or begin.error == "conditions no longer pass"


def test_an_action_that_was_refused_when_it_was_recorded_fails_and_says_why():
    end = begun(an_action(execution=STEP, context={"refused": "no such link"}))

    assert (end.status, end.error) == ("failed", "action 1 (notify): no such link")
