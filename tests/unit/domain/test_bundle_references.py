"""Tables in the actions of bundles, by id and by name."""

import json
from uuid import UUID

from shared.domain.bundle_references import named_tables, with_ids, with_names

ORDERS = UUID("aaaaaaaa-0000-4000-8000-000000000001")
SLOTS = UUID("bbbbbbbb-0000-4000-8000-000000000002")
NAMES = {ORDERS: "orders", SLOTS: "slots"}
IDS = {name: table_id for table_id, name in NAMES.items()}


def create(table_id):
    return {"data": {"a": 1}, "type": "create_record", "table_id": str(table_id)}


def created(table):
    return {"data": {"a": 1}, "type": "create_record", "table": table}


BODY = {
    "actions": [
        create(ORDERS),
        {"type": "notify", "table_id": str(ORDERS), "delay": {"on_expire": [create(SLOTS)]}},
        {
            "type": "materialize_slots",
            "roster": {"table_id": str(ORDERS), "start": "von"},
            "target": {"table_id": str(SLOTS)},
        },
    ]
}
NAMED = {
    "actions": [
        created("orders"),
        {"type": "notify", "table_id": str(ORDERS), "delay": {"on_expire": [created("slots")]}},
        {
            "type": "materialize_slots",
            "roster": {"table": "orders", "start": "von"},
            "target": {"table": "slots"},
        },
    ]
}


def test_tables_are_named_and_identified_in_place_wherever_actions_stand():
    # As text, so that the order of members is held too.
    assert json.dumps(with_names(BODY, NAMES)) == json.dumps(NAMED)
    assert json.dumps(with_ids(NAMED, IDS)) == json.dumps(BODY)


def test_actions_of_workflows_are_found_in_their_branches():
    def nodes(action):
        inner = {"type": "action", "action": action}
        return {
            "nodes": [
                {"type": "branch", "when": [], "then": [inner], "else": []},
                {"type": "wait_for_tracking", "not_clicked": [inner]},
            ]
        }

    assert with_names(nodes(create(ORDERS)), NAMES) == nodes(created("orders"))
    assert list(named_tables(nodes(created("orders")))) == [
        ("/nodes/0/then/0/action/table", "orders"),
        ("/nodes/1/not_clicked/0/action/table", "orders"),
    ]


def test_each_name_is_told_with_its_place():
    assert list(named_tables(NAMED)) == [
        ("/actions/0/table", "orders"),
        ("/actions/1/delay/on_expire/0/table", "slots"),
        ("/actions/2/roster/table", "orders"),
        ("/actions/2/target/table", "slots"),
    ]


def test_an_id_in_capitals_means_the_table_and_an_unknown_one_stays():
    shouted = {"actions": [create(str(ORDERS).upper())]}
    unknown = {"actions": [create(UUID(int=7)), create("no id"), {"type": "create_record"}]}

    assert with_names(shouted, NAMES) == {"actions": [created("orders")]}
    assert with_names(unknown, NAMES) == unknown


def test_whoever_says_both_is_left_to_be_refused():
    both = {"actions": [{**create(ORDERS), "table": "slots"}]}

    assert with_names(both, NAMES) == both
    assert with_ids(both, IDS) == both
    assert list(named_tables(both)) == []


def test_bodies_of_any_shape_are_passed_over():
    for body in (
        {},
        {"actions": None, "nodes": 7},
        {"actions": [7, None, {"type": ["x"]}, {"type": "materialize_slots", "roster": 1}]},
        {"actions": [{"type": "create_record", "table": 7, "table_id": {}}]},
        {"nodes": [{"type": "action"}, {"type": "branch", "then": 1}]},
    ):
        assert with_names(body, NAMES) == body
        assert with_ids(body, IDS) == body
        assert list(named_tables(body)) == []
