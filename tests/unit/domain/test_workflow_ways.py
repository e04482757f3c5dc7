"""What an execution has passed when it comes to a node."""

import pytest

from shared.domain.workflow_ways import branches_taken, nearest_wait

STOP = {"type": "stop"}


def wait(clicked=(), not_clicked=()):
    lists = {"clicked": list(clicked), "not_clicked": list(not_clicked)}
    return {"type": "wait_for_tracking", **lists}


def branch(name, then=(), other=()):
    return {"type": "branch", "when": [name], "then": list(then), "else": list(other)}


@pytest.mark.parametrize(
    ("nodes", "path", "found"),
    [
        ([STOP, STOP], "1", None),
        ([wait(), STOP], "1", "0"),
        ([wait(), wait(), STOP, STOP], "3", "1"),
        ([STOP, wait()], "0", None),
        ([wait(clicked=[STOP])], "0.clicked.0", "0"),
        ([wait(not_clicked=[wait(), STOP])], "0.not_clicked.1", "0.not_clicked.0"),
        ([wait(), branch("a", [STOP])], "1.then.0", "0"),
        ([wait(), branch("a", other=[branch("b", [STOP, STOP])])], "1.else.0.then.1", "0"),
        ([wait(clicked=[branch("a", [STOP])])], "0.clicked.0.then.0", "0"),
        ([branch("a", [wait()]), STOP], "1", None),
        ([branch("a", [wait()], [STOP])], "0.else.0", None),
        ([wait([wait()]), STOP], "1", "0"),
        ([5, STOP], "1", None),
    ],
)
def test_the_nearest_wait_stands_on_every_way_that_leads_there(nodes, path, found):
    assert nearest_wait(nodes, path) == found


def test_the_branches_around_a_node_are_told_from_without_to_within():
    nodes = [
        branch("behind"),
        branch("a", [wait(not_clicked=[branch("b", other=[STOP, branch("c", [STOP])])])]),
    ]

    assert branches_taken(nodes, "1") == []
    assert branches_taken(nodes, "1.then.0") == [{"when": ["a"], "held": True}]
    assert branches_taken(nodes, "1.then.0.not_clicked.0.else.1.then.0") == [
        {"when": ["a"], "held": True},
        {"when": ["b"], "held": False},
        {"when": ["c"], "held": True},
    ]
