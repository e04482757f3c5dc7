"""Workflows: which node a path names, and which step comes next."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.workflows import (
    MAX_LEVELS,
    actions_in,
    branch_step,
    first_step,
    next_step,
    node_at,
    nodes_in,
    pointer_of,
    started_in,
    wait_nodes,
    workflow_cycle,
)
from tests.strategies import json_values

STOP = {"type": "stop"}


def act(name="x", **settings):
    return {"type": "action", "action": {"type": "notify", "message": name, **settings}}


def pause(seconds=60):
    return {"type": "delay", "seconds": seconds}


def wait(link="offer", *, clicked=(), not_clicked=()):
    return {
        "type": "wait_for_tracking",
        "seconds": 60,
        "link": link,
        "target_url": "https://shop.example/",
        "clicked": list(clicked),
        "not_clicked": list(not_clicked),
    }


def fork(answer, *, then=(), otherwise=()):
    """A branch of which ``truthful`` says ``answer``."""
    return {"type": "branch", "when": [answer], "then": list(then), "else": list(otherwise)}


def starting(workflow, **settings):
    return {
        "type": "action",
        "action": {"type": "start_workflow", "workflow": workflow, **settings},
    }


def truthful(when):
    return when[0]


TREE = [
    act("a"),
    fork(True, then=[act("b"), pause()], otherwise=[act("c")]),
    wait(
        clicked=[act("d"), fork(False, then=[STOP], otherwise=[])],
        not_clicked=[act("e"), STOP, act("f")],
    ),
    act("g"),
]


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("0", act("a")),
        ("1.then.1", pause()),
        ("1.else.0", act("c")),
        ("2.clicked.0", act("d")),
        ("2.clicked.1.then.0", STOP),
        ("2.not_clicked.2", act("f")),
        ("3", act("g")),
    ],
)
def test_a_path_names_a_node(path, node):
    assert node_at(TREE, path) == node


@pytest.mark.parametrize(
    "path",
    [
        "",
        "4",
        "-1",
        "01",
        "x",
        "0.then.0",
        "1.clicked.0",
        "1.then",
        "1.then.2",
        "1.then.-1",
        "2.clicked.0.then.0",
        "1..0",
        "1.then.0.",
        "9.then.0",
        "²",
        "1.else.x",
    ],
)
def test_any_other_path_names_none(path):
    with pytest.raises(LookupError):
        node_at(TREE, path)


def test_every_node_is_found_under_its_path_in_document_order():
    found = list(nodes_in(TREE))

    assert [path for path, _ in found] == [
        "0",
        "1",
        "1.then.0",
        "1.then.1",
        "1.else.0",
        "2",
        "2.clicked.0",
        "2.clicked.1",
        "2.clicked.1.then.0",
        "2.not_clicked.0",
        "2.not_clicked.1",
        "2.not_clicked.2",
        "3",
    ]
    assert all(node_at(TREE, path) == node for path, node in found)


def test_nodes_below_the_deepest_list_are_not_gone_into():
    nodes = [STOP]
    for _ in range(100):
        nodes = [fork(True, then=nodes)]

    assert len(list(nodes_in(nodes))) == MAX_LEVELS


def test_a_path_is_also_a_place_in_the_document():
    assert pointer_of("2.clicked.0") == "/2/clicked/0"


def test_the_waits_are_found():
    tree = [wait("a", clicked=[wait("b")]), fork(True, otherwise=[wait("c")])]

    assert [(path, node["link"]) for path, node in wait_nodes(tree)] == [
        ("0", "a"),
        ("0.clicked.0", "b"),
        ("1.else.0", "c"),
    ]


def test_the_actions_are_found_at_their_places():
    assert [(pointer, action["message"]) for pointer, action in actions_in(TREE)] == [
        ("/0/action", "a"),
        ("/1/then/0/action", "b"),
        ("/1/else/0/action", "c"),
        ("/2/clicked/0/action", "d"),
        ("/2/not_clicked/0/action", "e"),
        ("/2/not_clicked/2/action", "f"),
        ("/3/action", "g"),
    ]


@pytest.mark.parametrize(
    ("nodes", "step"),
    [
        (TREE, "0"),
        ([pause()], "0"),
        ([wait()], "0"),
        ([STOP, act()], None),
        ([fork(True)], None),
        ([fork(True, otherwise=[act()]), act()], "1"),
        ([fork(False, otherwise=[act()]), act()], "0.else.0"),
        ([fork(True, then=[fork(True), fork(False, otherwise=[pause()])])], "0.then.1.else.0"),
        ([fork(True, then=[fork(True)]), fork(True), act()], "2"),
        ([fork(True, then=[STOP]), act()], None),
    ],
    ids=str,
)
def test_it_begins_with(nodes, step):
    assert first_step(nodes, truthful) == step


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("0", "1.then.0"),
        ("1.then.0", "1.then.1"),
        ("1.then.1", "2"),
        ("1.else.0", "2"),
        ("2", "3"),
        ("2.clicked.0", "3"),
        ("2.not_clicked.0", None),
        ("2.not_clicked.2", "3"),
        ("3", None),
    ],
)
def test_the_step_behind_is(path, step):
    assert next_step(TREE, path, truthful) == step


@pytest.mark.parametrize(
    ("nodes", "branch", "step"),
    [
        (TREE[2:], "clicked", "0.clicked.0"),
        (TREE[2:], "expired", "0.not_clicked.0"),
        ([wait(clicked=[act()])], "expired", None),
        ([wait(clicked=[act()]), act()], "expired", "1"),
        ([wait(clicked=[STOP]), act()], "clicked", None),
        ([{**wait(), "not_clicked": []}, pause()], "clicked", "1"),
        (
            [{"type": "wait_for_tracking", "seconds": 1, "link": "a", "target_url": "x"}, act()],
            "clicked",
            "1",
        ),
    ],
    ids=str,
)
def test_a_decided_wait_goes_on_with(nodes, branch, step):
    assert branch_step(nodes, "0", branch, truthful) == step


def test_each_branch_on_the_way_is_judged_once():
    asked = []

    def judge(when):
        asked.append(when[0])
        return True

    first_step([fork("a", then=[fork("b")]), fork("c", then=[act()])], judge)

    assert asked == ["a", "b", "c"]


@st.composite
def trees(draw, levels=4):
    """Lists of nodes with few stops; branches know their answer, waits are given theirs later."""
    kinds = ["action", "action", "delay", "action", "wait", "branch", "stop"]
    nodes = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(kinds if levels else kinds[:4]))
        if kind == "action":
            nodes.append(act())
        elif kind == "delay":
            nodes.append(pause())
        elif kind == "stop":
            nodes.append(STOP)
        else:
            first, second = draw(trees(levels=levels - 1)), draw(trees(levels=levels - 1))
            if kind == "wait":
                nodes.append(wait(clicked=first, not_clicked=second))
            else:
                nodes.append(fork(draw(st.booleans()), then=first, otherwise=second))
    return nodes


class Ended(Exception):
    """A stop was reached."""


def interpreted(nodes, clicks, prefix=""):
    """Give the steps of a tree as a plain recursive reading has them."""
    for index, node in enumerate(nodes):
        path = f"{prefix}{index}"
        match node["type"]:
            case "stop":
                raise Ended
            case "branch":
                key = "then" if node["when"][0] else "else"
                yield from interpreted(node[key], clicks, f"{path}.{key}.")
            case "wait_for_tracking":
                yield path
                key = "clicked" if clicks[path] else "not_clicked"
                yield from interpreted(node[key], clicks, f"{path}.{key}.")
            case _:
                yield path


def expected_steps(nodes, clicks):
    steps = []
    try:
        for path in interpreted(nodes, clicks):
            steps.append(path)
    except Ended:
        pass
    return steps


def walked_steps(nodes, clicks):
    steps = []
    path = first_step(nodes, truthful)
    while path is not None:
        steps.append(path)
        assert len(steps) <= len(list(nodes_in(nodes)))
        if node_at(nodes, path)["type"] == "wait_for_tracking":
            branch = "clicked" if clicks[path] else "expired"
            path = branch_step(nodes, path, branch, truthful)
        else:
            path = next_step(nodes, path, truthful)
    return steps


@given(trees(), st.randoms(use_true_random=False))
def test_a_walk_takes_each_step_of_its_way_once_and_in_order(nodes, random):
    clicks = {path: random.random() < 0.5 for path, _ in wait_nodes(nodes)}

    steps = walked_steps(nodes, clicks)

    assert steps == expected_steps(nodes, clicks)
    assert len(steps) == len(set(steps))
    assert {node_at(nodes, path)["type"] for path in steps} <= {
        "action",
        "delay",
        "wait_for_tracking",
    }


@given(trees())
def test_every_path_names_its_node_and_leads_forward(nodes):
    order = {path: place for place, (path, _) in enumerate(nodes_in(nodes))}

    for path, node in nodes_in(nodes):
        assert node_at(nodes, path) is node
        following = next_step(nodes, path, truthful)
        assert following is None or order[following] > order[path]


@given(json_values)
def test_what_is_no_tree_is_no_exception(raw):
    for nodes in (raw, [raw], [{"type": raw, "action": raw, "then": raw, "clicked": raw}]):
        list(nodes_in(nodes))
        wait_nodes(nodes)
        started_in(nodes)
    assert actions_in([{"type": "action", "action": raw}]) == [("/0/action", raw)]


def test_the_workflows_that_an_action_starts_are_found():
    on_expire = [{"type": "start_workflow", "workflow": "late"}, {"type": "start_workflow"}, 5]
    nodes = [
        starting("a"),
        wait(clicked=[starting("b")], not_clicked=[act(workflow="no")]),
        act(delay={"mode": "waitForTracking", "on_expire": on_expire}),
        starting(5),
    ]

    assert started_in(nodes) == [
        ("/0/action/workflow", "a"),
        ("/1/clicked/0/action/workflow", "b"),
        ("/2/action/delay/on_expire/0/workflow", "late"),
    ]


@pytest.mark.parametrize(
    ("starts", "cycle"),
    [
        ({"w": []}, None),
        ({"w": ["w"]}, ["w", "w"]),
        ({"w": ["a"], "a": ["b"], "b": []}, None),
        ({"w": ["a"], "a": ["w"]}, ["w", "a", "w"]),
        ({"w": ["a", "b"], "a": ["c"], "b": ["w"], "c": ["w"]}, ["w", "b", "w"]),
        ({"w": ["a"], "a": ["b"], "b": ["a"]}, None),
        ({"w": ["a"], "a": ["b", "c"], "b": ["a"], "c": ["b", "w"]}, ["w", "a", "c", "w"]),
        ({"w": ["gone"]}, None),
    ],
    ids=str,
)
def test_a_workflow_that_would_start_itself_is_known(starts, cycle):
    nodes = [starting(name) for name in starts["w"]]

    assert workflow_cycle("w", nodes, lambda name: starts.get(name, ())) == cycle


def test_each_stored_workflow_is_asked_once():
    asked = []

    def starts_of(name):
        asked.append(name)
        return ["a", "b", "c"]

    assert workflow_cycle("w", [starting("a"), starting("b"), starting("a")], starts_of) is None
    assert sorted(asked) == ["a", "b", "c"]


def test_a_long_chain_of_workflows_that_start_each_other_many_times_takes_little_memory():
    def starts_of(name):
        return [str(int(name) + 1)] * 4000 if int(name) < 500 else []

    tracemalloc.start()
    try:
        assert workflow_cycle("0", [starting("1")], starts_of) is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000
