"""What is told of a workflow that cannot be one."""

import json

import pytest
from hypothesis import given

from shared.domain.faults import MAX_TOLD
from shared.domain.workflow_faults import MAX_NODES_TEXT, MAX_TARGET_URL, links_in, workflow_faults
from shared.domain.workflows import MAX_LEVELS, MAX_NODES
from tests.strategies import json_values

STOP = {"type": "stop"}
ACT = {"type": "action", "action": {"type": "notify", "message": "x"}}
PAUSE = {"type": "delay", "seconds": 60}
WAIT = {
    "type": "wait_for_tracking",
    "seconds": 86_400,
    "link": "offer",
    "target_url": "https://shop.example/",
}
FORK = {"type": "branch", "when": [{"column": "event.total", "op": "gt", "value": 5}]}


def nested(levels):
    nodes = [STOP]
    for _ in range(levels - 1):
        nodes = [{**FORK, "then": nodes}]
    return nodes


def told(*nodes):
    return [(fault.pointer, fault.message) for fault in workflow_faults(list(nodes))]


@pytest.mark.parametrize(
    "nodes",
    [
        [ACT],
        [STOP],
        [ACT, PAUSE, {**WAIT, "clicked": [ACT, STOP], "not_clicked": []}, FORK],
        [{**FORK, "then": [ACT], "else": [PAUSE]}, {**FORK, "when": []}],
        [{**WAIT, "link": "a"}, {**WAIT, "link": "_A9"}, {**WAIT, "link": "x" * 64}],
        [{"type": "delay", "seconds": 366 * 86_400}],
        nested(MAX_LEVELS),
        [STOP] * MAX_NODES,
    ],
    ids=lambda nodes: str(nodes)[:60],
)
def test_a_sound_workflow_is_accepted(nodes):
    assert workflow_faults(nodes) == []


NO_LIST = "nodes must be a list of at least one node"


@pytest.mark.parametrize("nodes", [None, {}, "x", 5, []])
def test_a_workflow_has_nodes(nodes):
    assert [(f.code, f.pointer, f.message) for f in workflow_faults(nodes)] == [
        ("workflow_invalid", "/nodes", NO_LIST)
    ]


def test_nodes_have_a_size_together():
    def node(message):
        return {"type": "action", "action": {"type": "notify", "message": message}}

    room = MAX_NODES_TEXT - len(json.dumps([node("")]))

    assert told(node("案" * room)) == []
    assert told(node("案" * (room + 1))) == [
        ("/nodes", "nodes have at most 262144 characters together")
    ]


NO_TYPE = "the type of a node must be one of: action, delay, wait_for_tracking, branch, stop"
LINK = "link must be a name of up to 64 letters, digits and _ that begins with no digit"
TARGET = f"target_url must be a text of 1 to {MAX_TARGET_URL} characters"


@pytest.mark.parametrize(
    ("node", "faults"),
    [
        (5, [("", "a node must be an object")]),
        ({}, [("/type", NO_TYPE)]),
        ({"type": "loop", "seconds": 0}, [("/type", NO_TYPE)]),
        ({"type": ["stop"]}, [("/type", NO_TYPE)]),
        ({**STOP, "now": 1}, [("/now", "unknown key 'now' in a node of type stop. keys: type")]),
        (
            {**PAUSE, "clicked": []},
            [("/clicked", "unknown key 'clicked' in a node of type delay. keys: type, seconds")],
        ),
        (
            {**FORK, "clicked": []},
            [
                (
                    "/clicked",
                    "unknown key 'clicked' in a node of type branch. keys: type, when, then, else",
                )
            ],
        ),
        ({"type": "delay"}, [("/seconds", "a node of type delay must have seconds")]),
        (
            {"type": "delay", "seconds": 0},
            [("/seconds", "seconds must be from 1 to 31622400, which is 366 days")],
        ),
        (
            {"type": "delay", "seconds": True},
            [("/seconds", "seconds must be a whole number of seconds")],
        ),
        ({"type": "action"}, [("/action", "a node of type action must have action")]),
        (
            {"type": "action", "action": {"on_error": "no"}},
            [
                ("/action/on_error", "on_error must be one of: stop, continue"),
                ("/action/type", "an action must have a type, which is a text"),
            ],
        ),
        ({"type": "action", "action": None}, [("/action", "an action must be an object")]),
        (
            {"type": "wait_for_tracking", "link": "9"},
            [
                ("/link", LINK),
                ("/seconds", "a node of type wait_for_tracking must have seconds"),
                ("/target_url", "a node of type wait_for_tracking must have target_url"),
            ],
        ),
        ({**WAIT, "link": ""}, [("/link", LINK)]),
        ({**WAIT, "link": "a-b"}, [("/link", LINK)]),
        ({**WAIT, "link": "é"}, [("/link", LINK)]),
        ({**WAIT, "link": "x" * 65}, [("/link", LINK)]),
        ({**WAIT, "link": "a\n"}, [("/link", LINK)]),
        ({**WAIT, "link": None}, [("/link", LINK)]),
        ({**WAIT, "target_url": ""}, [("/target_url", TARGET)]),
        ({**WAIT, "target_url": 5}, [("/target_url", TARGET)]),
        ({**WAIT, "target_url": "x" * 2049}, [("/target_url", TARGET)]),
        ({**WAIT, "clicked": {}}, [("/clicked", "clicked must be a list of nodes")]),
        ({**WAIT, "not_clicked": None}, [("/not_clicked", "not_clicked must be a list of nodes")]),
        ({"type": "branch"}, [("/when", "a node of type branch must have when")]),
        (
            {**FORK, "when": [{"column": "total", "op": "eq", "value": 1}]},
            [
                (
                    "/when/0/column",
                    "a condition's column must be event.<key> or line_user.<attribute>",
                )
            ],
        ),
        (
            {**FORK, "else": [{"type": "delay", "seconds": "1"}], "then": [6]},
            [
                ("/else/0/seconds", "seconds must be a whole number of seconds"),
                ("/then/0", "a node must be an object"),
            ],
        ),
    ],
    ids=str,
)
def test_a_node_is_refused(node, faults):
    assert told(ACT, node) == [(f"/nodes/1{pointer}", message) for pointer, message in faults]


def test_a_delay_beyond_its_bounds_has_the_code_of_any_other_delay():
    [fault] = workflow_faults([{"type": "delay", "seconds": -5}])

    assert fault.code == "delay_out_of_bounds"


def test_every_wait_has_a_link_of_its_own():
    message = "two waits of the workflow have the link 'offer'"

    assert told(WAIT, {**WAIT, "link": "b", "clicked": [WAIT]}) == [
        ("/nodes/0/link", message),
        ("/nodes/1/clicked/0/link", message),
    ]


def test_the_names_of_the_links_are_known():
    assert links_in([{**WAIT, "clicked": [{**WAIT, "link": "b"}, {**WAIT, "link": 5}]}]) == [
        "offer",
        "b",
    ]


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, MAX_LEVELS + 2])
def test_lists_are_nested_within_bounds(levels):
    assert told(*nested(levels)) == [
        ("/nodes" + "/0/then" * MAX_LEVELS, f"nodes are nested at most {MAX_LEVELS} lists deep")
    ]


@pytest.mark.parametrize(
    "nodes",
    [[STOP] * (MAX_NODES + 1), [{**FORK, "then": [STOP] * 100, "else": [STOP] * 100}]],
    ids=["in one list", "in several"],
)
def test_the_nodes_are_counted(nodes):
    assert told(*nodes) == [("/nodes", f"a workflow has at most {MAX_NODES} nodes")]


def test_not_all_of_very_many_faults_are_told():
    assert len(told(*[dict.fromkeys(map(str, range(100)), 1) | STOP] * MAX_NODES)) == MAX_TOLD
    assert len(told(*[WAIT] * MAX_NODES)) == MAX_TOLD


@given(json_values)
def test_any_value_is_judged(raw):
    workflow_faults(raw)
    workflow_faults([raw, {**WAIT, "clicked": raw, "link": raw}, {**FORK, "when": raw}])
    workflow_faults([{"type": raw}, {"type": "action", "action": raw}, {**PAUSE, "seconds": raw}])
