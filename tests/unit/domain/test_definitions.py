"""What a run executes, frozen under a hash."""

import json

import pytest

from shared.domain.columns import column_from_json
from shared.domain.definitions import definition_body, definition_hash
from tests.builders import COLUMNS, a_read_trigger


def test_a_definition_has_the_trigger_and_the_columns_it_names():
    trigger = a_read_trigger(name="x")

    body = definition_body(trigger.raw, COLUMNS)

    assert body["v"] == 1
    assert body["trigger"] == trigger.raw
    assert tuple(map(column_from_json, body["columns"])) == COLUMNS


@pytest.mark.parametrize(
    ("on", "told"), [("record_created", {"keyed_by_write": True}), ("schedule", {})]
)
def test_a_definition_tells_how_the_keys_of_an_events_calls_are_made(on, told):
    body = definition_body({"on": on}, COLUMNS)

    assert body == {"v": 1, "trigger": {"on": on}, "columns": body["columns"]} | told


def test_the_order_of_keys_does_not_change_the_hash():
    body = definition_body(a_read_trigger(name="到期").raw, COLUMNS)
    stored = json.loads(json.dumps(body, sort_keys=True))

    assert len(definition_hash(body)) == 32
    assert definition_hash(stored) == definition_hash(body)


@pytest.mark.parametrize("change", [{"name": "y"}, {"enabled": False}])
def test_another_definition_has_another_hash(change):
    body = definition_body(a_read_trigger().raw, COLUMNS)
    other = definition_body(a_read_trigger(**change).raw, COLUMNS)

    assert definition_hash(other) != definition_hash(body)
    assert definition_hash({**body, "columns": []}) != definition_hash(body)
