import json
from pathlib import Path

import pytest
from marshmallow import fields

from shared.actions.lookups import Remembered
from shared.actions.registry import ACTIONS, check_actions
from shared.domain.columns import column_from_json
from tests.builders import TENANT_ID
from tests.unit.actions.known import CASES, Known

COLUMNS = tuple(column_from_json(column) for column in CASES["columns"])


def faults_of(*actions, on="schedule", schedule="date_column_reached", place="trigger"):
    if place != "trigger":
        found = check_actions(list(actions), place=place, lookup=Known())
        return [[fault.pointer, fault.message] for fault in found]
    found = check_actions(
        list(actions),
        on=on,
        schedule_kind=schedule if on == "schedule" else None,
        columns=COLUMNS,
        lookup=Known(),
    )
    return [[fault.pointer, fault.message] for fault in found]


def place(case):
    return {key: case[key] for key in ("on", "schedule", "place") if key in case}


def name(case):
    where = [case[key] for key in ("on", "schedule", "place") if key in case]
    return f"{' '.join(where)} {json.dumps(case['action'])[:100]}"


@pytest.mark.parametrize("case", CASES["accepted"], ids=name)
def test_a_sound_action_is_accepted(case):
    assert faults_of(case["action"], **place(case)) == []


@pytest.mark.parametrize("case", CASES["refused"], ids=name)
def test_every_fault_of_an_action_is_told_at_its_place(case):
    assert faults_of(case["action"], **place(case)) == case["faults"]


def test_faults_of_several_actions_come_in_document_order():
    actions = [{"type": "mail"}, {"type": "delete_record"}, {"nope": 1, "type": "delete_record"}]

    pointers = [pointer for pointer, _ in faults_of(*actions, schedule="daily")]

    assert pointers == [
        "/actions/0/type",
        "/actions/1/target",
        "/actions/2/nope",
        "/actions/2/target",
    ]


@pytest.mark.parametrize("raw", [None, {}, "x", 5, [None], [5], [[]], [{}], [{"type": None}]])
def test_what_read_trigger_refuses_is_not_said_twice(raw):
    found = check_actions(
        raw, on="record_created", schedule_kind=None, columns=COLUMNS, lookup=Known()
    )

    assert found == []


@pytest.mark.parametrize("value", ["later", 5, None, [], True])
def test_a_wrong_common_choice_is_left_to_read_trigger(value):
    action = {"type": "delete_record", "on_error": value}

    assert faults_of(action) == []


class Counting(Known):
    """Counts how often it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def find_table(self, table_id):
        self.asked.append(table_id)
        return super().find_table(table_id)

    def find_command(self, name):
        self.asked.append(name)
        return super().find_command(name)

    def find_workflow(self, name):
        self.asked.append(name)
        return super().find_workflow(name)


def test_what_many_actions_name_is_asked_for_once():
    table_id = next(iter(CASES["tables"]))
    create = {"type": "create_record", "table_id": table_id, "data": {}}
    command = {"type": "invoke_command", "command": "no such"}
    start = {"type": "start_workflow", "workflow": "welcome"}
    wait = {"mode": "waitForTracking", "expiresSeconds": 60, "trackingLink": "abc"}
    late = {**create, "delay": {**wait, "on_expire": 5 * [create, command, start]}}
    lookup = Counting()

    faults = check_actions([late, create, command, late], place="rule", lookup=lookup)

    assert sorted(map(str, lookup.asked)) == [table_id, "no such", "welcome"]
    assert {fault.code for fault in faults} == {"action_command_unknown"}
    assert len(faults) == 11


ODD_VALUES = [None, True, 0, -1.5, "", "$row", [], [[]], {}, {"a": {}}, {"X": "$row"}]


@pytest.mark.parametrize("schedule", ["date_column_reached", "interval", "cron"])
@pytest.mark.parametrize("action_type", ACTIONS)
def test_a_setting_of_any_shape_is_judged_without_an_exception(action_type, schedule):
    for key in set(ACTIONS[action_type].schema().fields) | {"nope"}:
        for value in ODD_VALUES:
            action = {"type": action_type, "table_id": str(TENANT_ID), "command": "ship"}
            faults_of(action | {key: value}, schedule=schedule)


@pytest.mark.parametrize("action_type", ACTIONS)
def test_every_type_is_registered_under_its_own_name(action_type):
    action = ACTIONS[action_type]

    assert action.type == action_type
    assert action.schema().fields["type"].validate.choices == [action_type]


@pytest.mark.parametrize("action_type", ACTIONS)
def test_every_schema_has_the_common_keys_and_refuses_others(action_type):
    schema = ACTIONS[action_type].schema()

    assert {"type", "name", "on_error", "delay"} <= set(schema.fields)
    assert schema.unknown == "raise"


@pytest.mark.parametrize("action_type", ACTIONS)
def test_tokens_are_replaced_in_settings_that_exist(action_type):
    action = ACTIONS[action_type]

    assert set(action.templated) <= set(action.schema().fields)


def test_only_actions_that_may_call_somebody_have_on_unknown():
    with_choice = {name for name in ACTIONS if "on_unknown" in ACTIONS[name].schema().fields}

    assert with_choice == {"notify", "webhook", "api_call", "invoke_command"}


@pytest.mark.parametrize("action_type", ACTIONS)
def test_no_field_is_of_the_coercing_kind(action_type):
    coercing = (fields.Boolean, fields.Integer, fields.Float, fields.DateTime)

    assert not [
        name
        for name, field in ACTIONS[action_type].schema().fields.items()
        if isinstance(field, coercing)
    ]


COMMON = {"type", "name", "on_error", "on_unknown", "delay"}
PAGE = (Path(__file__).parents[3] / "docs" / "actions.md").read_text("utf-8")


def test_the_documentation_has_what_all_types_share():
    [section] = [part for part in PAGE.split("\n## ") if part.startswith("What all actions share")]

    assert [key for key in sorted(COMMON) if f"| `{key}` |" not in section] == []


@pytest.mark.parametrize("action_type", ACTIONS)
def test_the_documentation_has_every_key_of_every_type(action_type):
    sections = PAGE.split("\n## ")
    [section] = [each for each in sections if each.startswith(f"{action_type}\n")]

    own = set(ACTIONS[action_type].schema().fields) - COMMON
    assert [key for key in sorted(own) if f"| `{key}` |" not in section] == []


def test_of_workflows_that_many_actions_name_only_their_starts_are_kept():
    start = {"type": "start_workflow", "workflow": "on"}
    long = {"type": "notify", "message": "x" * 100_000}
    nodes = [{"type": "action", "action": action} for action in (long, start, long, start)]
    remembered = Remembered(Known(welcome=nodes))

    kept = remembered.find_workflow("welcome")

    assert kept.nodes == [{"type": "action", "action": start}]
