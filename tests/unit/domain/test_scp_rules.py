from uuid import UUID

import pytest

from shared.domain.scp_rules import MAX_CHATROOMS, MAX_RULES, ScpRule, allows, read_rules
from shared.errors import InvalidInput

ONE, TWO = UUID(int=1), UUID(int=2)
READ = {"operations": ["read"], "chatrooms": [str(ONE)]}


def test_rules_are_read_and_told_in_the_order_in_which_they_were_written():
    raw = [{"operations": ["update", "read"], "chatrooms": [str(TWO), str(ONE)]}, READ]

    assert [rule.to_json() for rule in read_rules(raw)] == raw


def test_a_chatroom_is_told_in_its_usual_spelling():
    upper = "AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA"

    [rule] = read_rules([{"operations": ["read"], "chatrooms": [upper]}])

    assert rule.to_json()["chatrooms"] == [upper.lower()]


def test_an_operation_needs_a_rule_that_names_it_and_the_chatroom():
    rules = [
        ScpRule(operations=("read", "create"), chatrooms=(ONE,)),
        ScpRule(operations=("read",), chatrooms=(TWO,)),
    ]

    assert allows(rules, "read", ONE)
    assert allows(rules, "read", TWO)
    assert allows(rules, "create", ONE)
    assert not allows(rules, "create", TWO)
    assert not allows(rules, "delete", ONE)
    assert not allows(rules, "read", UUID(int=3))


def test_without_rules_everything_is_allowed():
    assert allows([], "delete", ONE)


MANY = [str(UUID(int=number)) for number in range(MAX_CHATROOMS + 1)]


@pytest.mark.parametrize(
    ("raw", "pointers"),
    [
        (None, ["/rules"]),
        ({}, ["/rules"]),
        ([READ] * (MAX_RULES + 1), ["/rules"]),
        (["read"], ["/rules/0"]),
        ([READ, {}], ["/rules/1/operations", "/rules/1/chatrooms"]),
        ([{**READ, "name": "x"}], ["/rules/0/name"]),
        ([{**READ, "operations": []}], ["/rules/0/operations"]),
        ([{**READ, "operations": "read"}], ["/rules/0/operations"]),
        ([{**READ, "operations": ["READ"]}], ["/rules/0/operations"]),
        ([{**READ, "operations": ["read", "read"]}], ["/rules/0/operations"]),
        ([{**READ, "operations": ["read", True]}], ["/rules/0/operations"]),
        ([{**READ, "operations": [["read"]]}], ["/rules/0/operations"]),
        ([{**READ, "chatrooms": []}], ["/rules/0/chatrooms"]),
        ([{**READ, "chatrooms": MANY}], ["/rules/0/chatrooms"]),
        ([{**READ, "chatrooms": [str(ONE), str(ONE)]}], ["/rules/0/chatrooms"]),
        ([{**READ, "chatrooms": [str(ONE) + "\n"]}], ["/rules/0/chatrooms"]),
        ([{**READ, "chatrooms": [ONE.hex]}], ["/rules/0/chatrooms"]),
        ([{**READ, "chatrooms": [1]}], ["/rules/0/chatrooms"]),
    ],
)
def test_every_fault_of_rules_is_told_at_its_place(raw, pointers):
    with pytest.raises(InvalidInput) as caught:
        read_rules(raw)

    assert [fault.pointer for fault in caught.value.faults] == pointers
    assert {fault.code for fault in caught.value.faults} == {"scp_rules_invalid"}


def test_the_most_rules_and_chatrooms_are_taken():
    rules = read_rules([{**READ, "chatrooms": MANY[:MAX_CHATROOMS]}] * MAX_RULES)

    assert len(rules) == MAX_RULES
