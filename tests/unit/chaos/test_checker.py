"""The checker of a chaos run: it finds every violation that is planted, and no other."""

from dataclasses import replace

import pytest

from tests.chaos.checker import KINDS, count_excused, drawn_arrows, find_breaches
from tests.chaos.evidence import Call, Effect, Ended, Evidence, Expected, Move, Struck

DUE = 100.0
TAGS = ("date-000001", "once-000001", "refused-000001", "gone-000001", "wait-000001")
DATE, ONCE, REFUSED, GONE, WAIT = TAGS
_EFFECTS = {
    DATE: {"message": 1, "call": 1},
    ONCE: {"call": 1},
    REFUSED: {"call": 1},
    GONE: {},
    WAIT: {"branch": 1},
}
_FATES = {ONCE: "once", REFUSED: "refused", GONE: "cancelled"}


def move(old, new, *, at, id=1, table="trigger_run", starts=0, **more):
    worker = {"worker_id": 7} if new == "running" else {}
    return Move(table=table, id=id, at=at, old=old, new=new, starts=starts, **worker | more)


def call(tag=DATE, *, at=DUE + 1, delivery=1, outcome="done", key=None):
    return Call(tag=tag, key=key or f"key of {tag}", delivery=delivery, at=at, outcome=outcome)


def struck(target="worker-1", *, kind="kill", began_at=DUE + 2, ended_at=DUE + 3):
    return Struck(kind=kind, target=target, began_at=began_at, ended_at=ended_at)


@pytest.fixture
def evidence():
    """A sound run: each identity has what it is to have, and a fault struck in the end."""
    return Evidence(
        expected=[
            Expected(
                tag=tag,
                effects=_EFFECTS[tag],
                not_before=dict.fromkeys(_EFFECTS[tag], DUE),
                fate=_FATES.get(tag, "never"),
            )
            for tag in TAGS
        ],
        effects=[
            Effect(sort="message", tag=DATE, at=DUE + 1),
            Effect(sort="branch", tag=WAIT, at=DUE + 9, told="clicked"),
        ],
        calls=[call(), call(ONCE), call(REFUSED)],
        moves=[
            move(None, "pending", at=DUE),
            move("pending", "running", at=DUE + 1, starts=1, due_at=DUE),
            move("running", "done", at=DUE + 2),
        ],
        ended=[
            Ended(
                table="scheduled_action", id=3, tag=REFUSED, status="failed", error="answered 404"
            ),
            Ended(table="scheduled_action", id=4, tag=GONE, status="cancelled", error="cancelled"),
        ],
        struck=[struck("scanner-1", began_at=DUE + 20, ended_at=DUE + 30)],
        rows={f"key of {tag}": ("trigger_run", 1) for tag in TAGS},
        workers={7: "worker-1", 8: "worker-2"},
        clicked_in_time={WAIT},
        stale_seconds=30.0,
        round_seconds=15.0,
    )


def _kinds(evidence):
    return {breach.kind for breach in find_breaches(evidence)}


def test_a_sound_run_has_no_breach(evidence):
    assert find_breaches(evidence) == []


def _without_effects(evidence):
    evidence.effects = [one for one in evidence.effects if one.tag != DATE]


def _without_calls(evidence):
    evidence.calls = [one for one in evidence.calls if one.tag != DATE]


def _called_in_vain(evidence):
    evidence.calls[0] = replace(evidence.calls[0], outcome="refused")


def _failure_untold(evidence):
    evidence.ended = [one for one in evidence.ended if one.tag != REFUSED]


def _never_ended(evidence):
    evidence.open_rows = ["trigger_run 9"]


def _click_lost(evidence):
    evidence.effects[1] = replace(evidence.effects[1], told="expired")


def _message_early(evidence):
    evidence.effects[0] = replace(evidence.effects[0], at=DUE - 0.1)


def _call_early(evidence):
    evidence.calls[0] = replace(evidence.calls[0], at=DUE - 0.1)


def _called_though_cancelled(evidence):
    evidence.calls.append(call(GONE))


def _begun_early(evidence):
    evidence.moves[1] = replace(evidence.moves[1], due_at=DUE + 1.5)


def _message_twice(evidence):
    evidence.effects.append(evidence.effects[0])


def _both_branches(evidence):
    evidence.effects.append(evidence.effects[1])


def _window_twice(evidence):
    evidence.effects += [Effect(sort="window", tag="cron-1/2026-01-01T00:01:00Z", at=DUE)] * 2


def _failed_for_nothing(evidence):
    evidence.ended.append(
        Ended(table="trigger_run", id=1, tag=DATE, status="failed", error="answered 500")
    )


def _failed_otherwise(evidence):
    evidence.ended[0] = replace(evidence.ended[0], error="worker lost 5 times")


def _once_failed_without_fault(evidence):
    error = "the outcome is unknown, and on_unknown is fail"
    evidence.ended.append(Ended(table="trigger_run", id=1, tag=ONCE, status="failed", error=error))


def _cancelled_for_nothing(evidence):
    error = "subject no longer exists"
    evidence.ended.append(
        Ended(table="scheduled_action", id=9, tag=DATE, status="cancelled", error=error)
    )


def _unknown_failed(evidence):
    evidence.ended.append(
        Ended(table="staged_change", id=9, tag=None, status="failed", error="conflict")
    )


def _left_done(evidence):
    evidence.moves.append(move("done", "pending", at=DUE + 5))


def _left_out_a_status(evidence):
    del evidence.moves[1]
    evidence.moves[1] = move("pending", "failed", at=DUE + 2)
    evidence.moves.append(move("running", "done", at=DUE + 3))


def _started_late(evidence):
    evidence.moves += [
        move(None, "pending", at=DUE, id=2),
        move("pending", "running", at=DUE + 30 + 60.1, id=2, starts=1, due_at=DUE),
        move("running", "done", at=DUE + 99, id=2),
    ]


def _invariant_broken(evidence):
    evidence.violations = ["I1 an identity is consumed once: run 1"]


PLANTED = [
    ("lost", _without_effects),
    ("lost", _without_calls),
    ("lost", _called_in_vain),
    ("lost", _failure_untold),
    ("lost", _never_ended),
    ("lost", _click_lost),
    ("early", _message_early),
    ("early", _call_early),
    ("early", _called_though_cancelled),
    ("early", _begun_early),
    ("internal double", _message_twice),
    ("internal double", _both_branches),
    ("internal double", _window_twice),
    ("wrongly failed", _failed_for_nothing),
    ("wrongly failed", _failed_otherwise),
    ("wrongly failed", _once_failed_without_fault),
    ("wrongly failed", _cancelled_for_nothing),
    ("wrongly failed", _unknown_failed),
    ("illegal move", _left_done),
    ("illegal move", _left_out_a_status),
    ("late start", _started_late),
    ("invariant", _invariant_broken),
]


@pytest.mark.parametrize(("kind", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_what_is_planted_is_found(evidence, kind, plant):
    plant(evidence)

    assert _kinds(evidence) == {kind}


def _call_again(evidence, *faults, **second):
    """The worker 7 held the row from 101 on; another claimed it at 110 and called again."""
    evidence.moves[2:] = [
        move("running", "pending", at=DUE + 9),
        move("pending", "running", at=DUE + 10, starts=2, due_at=DUE + 9, worker_id=8),
        move("running", "done", at=DUE + 12),
    ]
    evidence.calls.append(call(**{"delivery": 2, "at": DUE + 11} | second))
    evidence.struck += faults
    return evidence


@pytest.mark.parametrize(
    "fault",
    [
        struck("worker-1", kind="kill"),
        struck("worker-1", kind="freeze", began_at=DUE + 9.5),
        struck("worker-1", kind="lost answer", began_at=DUE - 5, ended_at=DUE + 1),
        struck("worker-1", kind="silent database"),
        struck("postgres", kind="crash"),
    ],
)
def test_a_call_that_came_again_across_a_fault_of_its_worker_or_the_database_is_excused(
    evidence, fault
):
    _call_again(evidence, fault)

    assert find_breaches(evidence) == []
    assert count_excused(evidence) == (0, 1)


def test_a_call_whose_answer_its_receiver_lost_may_come_again(evidence):
    _call_again(evidence)
    evidence.calls[0] = replace(evidence.calls[0], outcome="lost")

    assert find_breaches(evidence) == []
    assert count_excused(evidence) == (1, 0)


def test_a_call_upon_which_nobody_acted_is_no_first_one(evidence):
    _call_again(evidence)
    evidence.calls[0] = replace(evidence.calls[0], outcome="refused")

    assert find_breaches(evidence) == []
    assert count_excused(evidence) == (0, 0)


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (struck("worker-2"),),
        (struck("scanner-1"), struck("api"), struck("rabbit", kind="crash"), struck("redis")),
        (struck("worker-1", kind="stop"),),
        (struck("worker-1", kind="cut broker"), struck("worker-1", kind="silent redis")),
        (struck("worker-1", began_at=DUE - 9, ended_at=DUE - 1),),
        (struck("worker-1", began_at=DUE + 10.5, ended_at=DUE + 11),),
        (struck("postgres", kind="crash", began_at=DUE + 10.5, ended_at=DUE + 11),),
    ],
    ids=["none", "of another", "of all others", "stop", "ways", "before", "after", "crash after"],
)
def test_a_call_that_came_again_without_such_a_fault_is_a_breach(evidence, faults):
    _call_again(evidence, *faults)

    assert _kinds(evidence) == {"unexcused double"}
    assert count_excused(evidence) == (0, 0)


def test_a_call_that_came_again_within_one_start_is_a_breach_whatever_struck(evidence):
    _call_again(evidence, struck(), delivery=1)

    assert _kinds(evidence) == {"unexcused double"}


def test_a_call_that_came_again_under_another_key_is_a_breach_whatever_struck(evidence):
    _call_again(evidence, struck(), key="another")

    assert _kinds(evidence) == {"unexcused double"}


def test_what_must_not_be_sent_twice_has_no_excuse(evidence):
    _call_again(evidence, struck(), tag=ONCE)

    assert _kinds(evidence) == {"unexcused double"}


def test_what_must_not_be_sent_twice_may_fail_across_a_fault(evidence):
    _once_failed_without_fault(evidence)
    evidence.struck.append(struck(began_at=DUE + 1, ended_at=DUE + 2))

    assert find_breaches(evidence) == []


def test_what_was_announced_in_vain_may_wait_until_it_is_announced_again(evidence):
    _started_late(evidence)
    evidence.moves[4] = replace(evidence.moves[4], announcements=2)

    assert find_breaches(evidence) == []


def test_every_kind_of_breach_is_planted():
    assert {kind for kind, _ in PLANTED} | {"unexcused double"} == set(KINDS)


def test_the_arrows_are_those_of_the_drawings():
    arrows = drawn_arrows()

    assert set(arrows) == {"trigger_run", "scheduled_action", "staged_change"}
    assert ("pending", "running") in arrows["trigger_run"]
    assert (None, "pending") in arrows["scheduled_action"]
    assert ("pending", "applied") not in arrows["staged_change"]
