from datetime import UTC, datetime

import pytest
from psycopg.errors import DeadlockDetected, ReadOnlySqlTransaction, UniqueViolation
from psycopg_pool import PoolTimeout

from services.worker.definitions import Definition
from services.worker.execution import (
    Execution,
    Failure,
    failure_of,
    finish,
    first_error,
    next_position,
)
from services.worker.run_trigger import RunScript
from services.worker.steps import Finish, Save
from shared.actions.failures import ActionFailed
from shared.errors import NotFound, Unavailable
from tests.builders import a_claimed_run

BEGUN_AT = datetime(2026, 7, 25, 9, 0, tzinfo=UTC)
ENDED_AT = datetime(2026, 7, 25, 9, 0, 2, tzinfo=UTC)


def a_definition(*configs):
    actions = [{"type": f"type{number}", **config} for number, config in enumerate(configs, 1)]
    return Definition(trigger={"actions": actions}, columns=())


def an_execution(*configs, position=0, receipts=(), **of_run):
    script = RunScript(work=a_claimed_run(**of_run), definition=a_definition(*configs or [{}, {}]))
    return Execution(
        script=script,
        position=position,
        receipts=list(receipts),
        started_at=BEGUN_AT,
    )


def ok(number=1, **more):
    return {"type": f"type{number}", "ok": True, "attempts": 1, **more}


def failed(number=1, *, transient=False, **more):
    known = {"type": f"type{number}", "ok": False, "attempts": 1, "detail": "no"}
    return {**known, "transient": transient, **more}


def test_a_success_before_the_last_action_saves_and_goes_on():
    step = an_execution().after_success({"status": 200}, now=ENDED_AT)

    assert isinstance(step, Save)
    assert step.is_ok
    assert step.receipts == [
        {
            "type": "type1",
            "ok": True,
            "attempts": 1,
            "started_at": "2026-07-25T09:00:00Z",
            "finished_at": "2026-07-25T09:00:02Z",
            "status": 200,
        }
    ]


def test_a_success_of_the_last_action_ends_the_run_as_done():
    step = an_execution(position=1, receipts=[ok()]).after_success({}, now=ENDED_AT)

    assert isinstance(step, Finish)
    assert (step.status, step.error, len(step.receipts)) == ("done", None, 2)


def test_a_run_with_a_failure_that_was_continued_past_ends_failed():
    execution = an_execution({"on_error": "continue"}, {}, position=1, receipts=[failed()])

    step = execution.after_success({}, now=ENDED_AT)

    assert (step.status, step.error) == ("failed", "action 1 (type1): no")


def test_a_further_execution_replaces_the_receipt_and_counts_on():
    execution = an_execution(receipts=[failed(transient=True, attempts=2), ok(2)], attempts=3)

    step = execution.after_success({}, now=ENDED_AT)

    assert [receipt["ok"] for receipt in step.receipts] == [True, True]
    assert step.receipts[0]["attempts"] == 3
    assert step.status == "done"


def test_a_failure_leaves_a_receipt_that_says_whether_it_may_pass():
    failure = Failure(detail="busy", transient=True, result={"status": 503})

    [receipt] = an_execution().after_failure(failure, now=ENDED_AT)

    assert (receipt["ok"], receipt["detail"], receipt["transient"]) == (False, "busy", True)
    assert receipt["status"] == 503


@pytest.mark.parametrize(
    ("open_action", "position", "was_opened"), [(None, 0, False), (0, 0, True), (0, 1, False)]
)
def test_an_action_was_opened_when_its_own_intent_is_there(open_action, position, was_opened):
    execution = an_execution(position=position, open_action=open_action)

    assert execution.was_opened is was_opened


def test_an_unknown_outcome_is_the_last_where_it_must_not_be_sent_again():
    failure = Failure(detail="no answer", transient=True, unknown=True)

    once = an_execution({"on_unknown": "fail"}).settled(failure)
    again = an_execution({"on_unknown": "retry"}).settled(failure)

    assert not once.transient
    assert once.detail == "no answer; the outcome is unknown, and on_unknown is fail"
    assert again == failure


def test_a_known_failure_may_pass_also_where_it_must_not_be_sent_twice():
    failure = Failure(detail="busy", transient=True)

    assert an_execution({"on_unknown": "fail"}).settled(failure) == failure


@pytest.mark.parametrize(
    ("receipts", "start", "position"),
    [
        ([], 0, 0),
        ([ok()], 0, 1),
        ([ok(), ok(2)], 0, None),
        ([failed(), ok(2)], 0, None),
        ([failed(transient=True), ok(2)], 0, 0),
        ([failed()], 0, 1),
        ([failed(transient=True)], 1, 1),
        ([ok(), ok(2)], 2, None),
    ],
)
def test_an_execution_goes_on_at_the_first_action_that_is_not_settled(receipts, start, position):
    definition = a_definition({"on_error": "continue"}, {})

    assert next_position(definition.actions, receipts, start=start) == position


def test_the_error_of_a_run_is_its_first_failed_actions():
    assert first_error([]) is None
    assert first_error([ok(), failed(2), failed(3)]) == "action 2 (type2): no"


def test_an_end_without_an_error_is_done():
    assert finish(a_claimed_run(), [], error=None).status == "done"
    assert finish(a_claimed_run(), None, error="no").status == "failed"


@pytest.mark.parametrize(
    "error",
    [
        DeadlockDetected("deadlock"),
        ReadOnlySqlTransaction("no writes"),
        PoolTimeout("none free"),
        Unavailable("away"),
    ],
)
def test_the_databases_troubles_pass(error):
    assert failure_of(error).transient


@pytest.mark.parametrize("error", [UniqueViolation("double"), NotFound("gone"), ValueError("bug")])
def test_anything_else_is_there_to_stay(error):
    failure = failure_of(error)

    assert not failure.transient
    assert failure.detail == str(error)


def test_an_error_without_words_is_told_by_its_name():
    assert failure_of(ZeroDivisionError()).detail == "ZeroDivisionError"


def test_an_action_says_itself_how_it_failed():
    error = ActionFailed(
        "busy", transient=True, retry_after=7.0, unknown=True, result={"status": 503}
    )

    assert failure_of(error) == Failure(
        detail="busy", transient=True, retry_after=7.0, unknown=True, result={"status": 503}
    )
