import json

import pytest

from shared.actions.input_schemas import check_input_schema, input_faults, input_problem

ORDER = {
    "type": "object",
    "required": ["order"],
    "additionalProperties": False,
    "properties": {
        "order": {"type": "string", "minLength": 1},
        "boxes": {"type": "integer", "minimum": 1},
        "to": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["city"]}]},
    },
}


def places(schema):
    return [fault.pointer for fault in check_input_schema(schema)]


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        ORDER,
        {"type": "object", "properties": {"$ref": {"type": "string"}, "pattern": True}},
        {"type": "object", "title": "t", "description": "d", "properties": {"a": {"enum": [1]}}},
        {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": False},
        {"type": "object", "allOf": [{"required": ["a"]}], "not": {"required": ["z"]}},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "prefixItems": [{}, {}], "items": False}},
        },
        nested(11),
    ],
)
def test_a_plain_schema_is_taken(schema):
    assert check_input_schema(schema) == []


@pytest.mark.parametrize(
    ("schema", "pointers"),
    [
        (None, [""]),
        (True, [""]),
        ([], [""]),
        ({}, [""]),
        ({"type": "string"}, [""]),
        ({"type": ["object"]}, [""]),
        ({"type": "object", "$ref": "#"}, ["/$ref"]),
        ({"type": "object", "properties": {"a": {"$ref": "https://x/"}}}, ["/properties/a/$ref"]),
        ({"type": "object", "$defs": {"a": {}}}, ["/$defs"]),
        ({"type": "object", "$id": "https://x/", "$dynamicRef": "#a"}, ["/$id", "/$dynamicRef"]),
        ({"type": "object", "patternProperties": {"(a+)+$": {}}}, ["/patternProperties"]),
        ({"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}}, ["/properties/a/pattern"]),
        ({"type": "object", "items": {"uniqueItems": True}}, ["/items/uniqueItems"]),
        ({"type": "object", "allOf": [{}, {"$ref": "#"}]}, ["/allOf/1/$ref"]),
        ({"type": "object", "not": {"if": {"contains": {}}}}, ["/not/if/contains"]),
        ({"type": "object", "colour": 1}, ["/colour"]),
        ({"type": "object", "required": "a"}, ["/required"]),
        ({"type": "object", "properties": []}, ["/properties"]),
        ({"type": "object", "properties": {"a": 5}}, ["/properties/a"]),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, ["/properties/a/type"]),
        ({"type": "object", "minProperties": -1}, ["/minProperties"]),
        ({"type": "object", "allOf": {}}, ["/allOf"]),
        (nested(12), [""]),
        ({"type": "object", "allOf": [{} for _ in range(100)]}, [""]),
        ({"type": "object", "description": "x" * 65_536}, [""]),
        ({"type": "object", "enum": list(range(1000))}, [""]),
    ],
)
def test_a_schema_that_is_not_plain_is_refused_at_its_place(schema, pointers):
    assert places(schema) == pointers


def test_the_message_names_the_keyword():
    [fault] = check_input_schema({"type": "object", "pattern": "x"})

    assert fault.code == "input_schema_invalid"
    assert fault.message == "'pattern' is not supported in an input schema"


def test_constants_are_judged_and_tokens_are_not():
    faults = input_faults(
        {"order": "$row.name", "boxes": 0, "to": {"street": "$row.street"}}, ORDER
    )

    assert [fault.pointer for fault in faults] == ["/inputs/boxes"]


def test_names_are_judged_before_the_values_are_known():
    faults = input_faults({"boxes": "$row.boxes", "colour": "$row.colour"}, ORDER)

    assert sorted(fault.message for fault in faults) == [
        "invoke_command inputs: 'order' is a required property",
        "invoke_command inputs: Additional properties are not allowed ('colour' was unexpected)",
    ]


def test_more_inputs_than_a_command_takes_are_not_judged_one_by_one():
    [fault] = input_faults({"order": "x", "to": list(range(500))}, ORDER)

    assert fault.pointer == "/inputs"
    assert fault.message == "invoke_command inputs: there are more than 500 values"


def test_inputs_that_fit():
    assert input_problem({"order": "A-1", "boxes": 2, "to": {"city": "Taipei"}}, ORDER) is None


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "input / does not fit: 'order' is a required property"),
        ({"order": 5}, "input /order does not fit: 5 is not of type 'string'"),
        ({"order": "x", "boxes": True}, "input /boxes does not fit: True is not of type 'integer'"),
        ({"order": "x", "boxes": 1.5}, "input /boxes does not fit: 1.5 is not of type 'integer'"),
        ({"order": list(range(500))}, "the inputs have more than 500 values"),
    ],
)
def test_inputs_that_do_not_fit(inputs, problem):
    assert input_problem(inputs, ORDER) == problem


def test_a_reference_in_a_stored_schema_is_never_fetched(monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("fetched"))

    with pytest.raises(Exception, match="example"):
        input_problem({"a": 1}, {"type": "object", "$ref": "https://schemas.example/a.json"})


def test_the_costliest_schema_on_the_largest_inputs_ends():
    parts = [{"items": {"minimum": 0, "maximum": number}} for number in range(49)]
    schema = {"type": "object", "properties": {"a": {"oneOf": parts}}}

    assert check_input_schema(schema) == []
    assert input_problem({"a": [99] * 497}, schema) is not None
    assert len(json.dumps(schema)) < 65_536


def test_a_list_of_unlike_types_is_compared_in_time():
    types = [None, *([number] for number in range(480))]
    schema = {"type": "object", "properties": {"a": {"type": types}}}

    assert places(schema) == ["/properties/a/type"]
