"""The check of a workflow as a whole."""

import pytest
from hypothesis import given

from shared.actions.definition_checks import check_workflow
from shared.domain.faults import MAX_TOLD
from tests.strategies import json_values
from tests.unit.actions.known import Known

ROOM = "11111111-1111-4111-8111-111111111111"


def note(message="x", **settings):
    return {"type": "notify", "chatroom_id": ROOM, "message": message, **settings}


def act(message="x", **settings):
    return {"type": "action", "action": note(message, **settings)}


def starting(workflow):
    return {"type": "action", "action": {"type": "start_workflow", "workflow": workflow}}


def wait(link="offer", **parts):
    return {
        "type": "wait_for_tracking",
        "seconds": 60,
        "link": link,
        "target_url": "https://shop.example/",
        **parts,
    }


def told(*nodes, name="w", lookup=None):
    faults = check_workflow(list(nodes), name=name, lookup=lookup or Known())
    return [(fault.pointer, fault.message) for fault in faults]


def test_a_sound_workflow_is_accepted():
    nodes = [
        act("look: $link.offer"),
        wait(
            clicked=[act("thanks, $line_user.display_name"), {"type": "stop"}],
            not_clicked=[act("${link.offer} still waits", delay={"seconds": 60})],
        ),
        {"type": "delay", "seconds": 60},
        act("$event.total"),
    ]

    assert told(*nodes) == []


def test_the_faults_of_nodes_and_of_actions_come_in_document_order():
    nodes = [
        act("$row.a"),
        {"type": "delay", "seconds": 0},
        wait(target_url="shop.example", clicked=[act(message=5)]),
        {"type": "action", "action": {"message": "x"}},
        act(delay={"mode": "waitForTracking", "expiresSeconds": 0, "trackingLink": "$link.no"}),
        act("$link.coupon"),
    ]

    assert told(*nodes) == [
        ("/nodes/0/action/message", "a workflow has no row: '$row' tokens are invalid"),
        ("/nodes/1/seconds", "seconds must be from 1 to 31622400, which is 366 days"),
        (
            "/nodes/2/target_url",
            "target_url cannot be followed: a URL begins with http:// or https://",
        ),
        ("/nodes/2/clicked/0/action/message", "notify message must be a text"),
        ("/nodes/3/action/type", "an action must have a type, which is a text"),
        (
            "/nodes/4/action/delay/expiresSeconds",
            "delay expiresSeconds must be from 1 to 31622400, which is 366 days",
        ),
        (
            "/nodes/4/action/delay/trackingLink",
            "unknown link 'no' in '$link.no'. "
            "write ${link.<name>} where the name of the link ends before the next word character",
        ),
        (
            "/nodes/5/action/message",
            "unknown link 'coupon' in '$link.coupon'. "
            "write ${link.<name>} where the name of the link ends before the next word character",
        ),
    ]


@pytest.mark.parametrize(
    "target",
    ["javascript:alert(1)", "//shop.example/", "https://user@shop.example/", "https://a b/", "$x"],
)
def test_a_link_leads_to_an_address_that_a_browser_opens(target):
    [(pointer, message)] = told(wait(target_url=target))

    assert pointer == "/nodes/0/target_url"
    assert message.startswith("target_url cannot be followed: ")


def test_a_text_that_can_be_no_address_is_refused_once():
    assert len(told(wait(target_url=""))) == 1
    assert len(told(wait(target_url="https://a.example/" + "x" * 2048))) == 1


LATER = {"mode": "waitForTracking", "expiresSeconds": 60}
NO_WAIT = (
    "no node of type wait_for_tracking stands before this action:"
    " its delay must have the trackingLink that it watches"
)


def branch(*then, when=()):
    return {"type": "branch", "when": list(when), "then": list(then)}


@pytest.mark.parametrize(
    "nodes",
    [
        [wait(), act(delay=LATER)],
        [wait(clicked=[act(delay=LATER)])],
        [wait(), branch(act(), branch(act(delay=LATER)))],
        [act(delay={**LATER, "trackingLink": "$link.offer"}), wait()],
        [act(delay={**LATER, "trackingLink": "$event.link"})],
    ],
)
def test_an_action_may_wait_for_a_click_on_a_link_that_is_known(nodes):
    assert told(*nodes) == []


@pytest.mark.parametrize(
    ("nodes", "place"),
    [
        ([act(delay=LATER), wait()], "0"),
        ([branch(wait()), act(delay=LATER)], "1"),
        ([branch(act(delay=LATER)), wait()], "0/then/0"),
        ([5, wait(clicked=5), {"type": []}, act(delay={**LATER, "on_expire": 5})], None),
        ([5, {"type": []}, act(delay=LATER)], "2"),
    ],
)
def test_an_action_that_waits_for_a_click_has_a_link_before_it(nodes, place):
    found = [pointer for pointer, message in told(*nodes) if message == NO_WAIT]

    assert found == ([] if place is None else [f"/nodes/{place}/action/delay/trackingLink"])


STARTS = {"a": [starting("b")], "b": [starting("w"), starting("c")], "c": [act()]}


def cycles(*nodes):
    faults = check_workflow(list(nodes), name="w", lookup=Known(**STARTS))
    return [
        (fault.pointer, fault.message) for fault in faults if fault.code == "workflow_starts_itself"
    ]


def test_a_workflow_that_would_start_itself_is_refused():
    assert cycles(starting("c"), wait(clicked=[starting("a")])) == [
        ("/nodes/1/clicked/0/action/workflow", "the workflow would start itself: w → a → b → w")
    ]
    assert cycles(act(), starting("w")) == [
        ("/nodes/1/action/workflow", "the workflow would start itself: w → w")
    ]


def test_a_workflow_that_starts_others_is_accepted():
    assert cycles(starting("c"), starting("gone")) == []


@pytest.mark.parametrize(
    "nodes", [None, [], "x", [{"type": "stop"}] * 201], ids=lambda n: str(n)[:9]
)
def test_what_has_no_nodes_is_looked_at_no_further(nodes):
    [fault] = check_workflow(nodes, name="w", lookup=Known())

    assert fault.pointer == "/nodes"


def test_not_all_of_very_many_faults_are_told():
    assert len(told(*[act("$row.x") for _ in range(200)])) == MAX_TOLD


@given(json_values)
def test_any_value_is_judged(raw):
    check_workflow([{"type": "action", "action": raw}, raw], name="w", lookup=Known())
    check_workflow([act(delay=raw)], name="w", lookup=Known())
    check_workflow([act(delay={"seconds": 5, "on_expire": [raw, raw]})], name="w", lookup=Known())
