"""Documents: which lines are read, and everything that is wrong with the others."""

import json

import pytest

from shared.domain.bundles import OF_A_CHANNEL, dump_line, read_document
from shared.errors import InvalidInput

TABLE = {"kind": "table", "name": "orders", "columns": []}
TRIGGER = {"kind": "trigger", "table": "orders", "on": "record_created", "actions": [{}]}
RULE = {"kind": "trigger_rule", "name": "r", "event": "e", "actions": [{}]}
WORKFLOW = {"kind": "workflow", "name": "w", "nodes": []}
COMMAND = {"kind": "command", "name": "c", "url": "https://example.com", "input_schema": {}}
ALL = (TABLE, TRIGGER, RULE, WORKFLOW, COMMAND)


def document(*lines):
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines).encode()


def faults_of(*lines, **options):
    with pytest.raises(InvalidInput) as caught:
        read_document(document(*lines), **options)
    return [(fault.pointer, fault.code) for fault in caught.value.faults]


def without(line, key):
    return {name: value for name, value in line.items() if name != key}


def test_blank_lines_count_and_say_nothing():
    lines = read_document(b"\xef\xbb\xbf\r\n" + document(TABLE, "", "  \t\r", RULE, ""))

    assert [(line.number, line.kind) for line in lines] == [(2, "table"), (5, "trigger_rule")]


def test_an_empty_document_has_no_lines():
    assert read_document(b"") == []


def test_written_defaults_become_what_is_stored():
    schedule = {"type": "cron", "expression": " 0  9 * * * ", "timezone": "UTC"}
    [line] = read_document(document({**TRIGGER, "on": "schedule", "schedule": schedule}))
    [rule] = read_document(document(RULE))

    assert line.body == {
        "table": "orders",
        "name": "",
        "enabled": True,
        "on": "schedule",
        "schedule": {"type": "cron", "expression": "0 9 * * *"},
        "when": [],
        "actions": [{}],
    }
    assert (rule.body["conditions"], rule.body["enabled"]) == ([], True)


@pytest.mark.parametrize("offset", [False, 0.0, None, "0"])
def test_an_offset_that_only_equals_zero_is_kept_to_be_refused_when_saved(offset):
    schedule = {"type": "date_column_reached", "column": "due", "offset_minutes": offset}
    [line] = read_document(document({**TRIGGER, "on": "schedule", "schedule": schedule}))

    assert json.dumps(line.body["schedule"]) == json.dumps(schedule)


def test_all_faults_of_all_lines_are_told_at_once_with_the_line_and_the_place():
    assert faults_of(
        "{not json",
        "[]",
        {"kind": "view"},
        {**TABLE, "colour": 1, "channel_id": "x", "approval": "maybe"},
        TABLE,
        without(TRIGGER, "table"),
        {**TRIGGER, "id": "trg_1", "schedul": {}},
        {**RULE, "event": " ", "enabled": 1},
        without(WORKFLOW, "nodes"),
        {**COMMAND, "input_schema": [], "url": "x" * 3000},
        "{}",
    ) == [
        ("/1", "json_malformed"),
        ("/2", "bundle_line_invalid"),
        ("/3/kind", "bundle_line_invalid"),
        ("/4/colour", "field_unknown"),
        ("/4/channel_id", "field_invalid"),
        ("/4/approval", "field_invalid"),
        ("/6/table", "field_missing"),
        ("/7/id", "field_invalid"),
        ("/7/schedul", "field_unknown"),
        ("/8/event", "field_invalid"),
        ("/8/enabled", "field_invalid"),
        ("/9/nodes", "field_missing"),
        ("/10/url", "field_invalid"),
        ("/10/input_schema", "field_invalid"),
        ("/11/kind", "bundle_line_invalid"),
    ]


def test_broken_json_is_told_with_the_line_of_the_document():
    with pytest.raises(InvalidInput) as caught:
        read_document(document(TABLE, "", '{"kind": }'))

    assert "line 3 column 10" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "table", "kind": "table"}',
        '{"kind": "\\ud800"}',
        '{"kind": 1e999}',
        "[" * 40,
        '{"kind": "tab\\u0000le"}',
        '{"kind": NaN}',
    ],
)
def test_hostile_lines_are_refused_one_by_one(text):
    [(pointer, code), (other, _)] = faults_of(text, "7")

    assert (pointer, other) == ("/1", "/2")
    assert code.startswith("json_")


def test_bytes_that_are_no_text_spoil_their_line_alone():
    with pytest.raises(InvalidInput) as caught:
        read_document(document(TABLE) + b"\n\xff\n" + document({"kind": "x"}))

    assert [fault.pointer for fault in caught.value.faults] == ["/2", "/3/kind"]


def test_what_stands_twice_is_told_with_the_line_where_it_stood_first():
    identified = {**TRIGGER, "id": "trg_00000000000a"}

    assert faults_of(*ALL, *ALL, identified, {**identified, "table": "other"}, identified) == [
        ("/6/name", "bundle_line_duplicate"),
        ("/8/name", "bundle_line_duplicate"),
        ("/9/name", "bundle_line_duplicate"),
        ("/10/name", "bundle_line_duplicate"),
        ("/13/id", "bundle_line_duplicate"),
    ]


def test_names_are_those_of_a_kind():
    lines = [{**line, "name": "same"} for line in (TABLE, RULE, WORKFLOW, COMMAND)]

    assert len(read_document(document(*lines))) == 4


def test_the_bundle_of_a_channel_holds_tables_and_triggers():
    assert len(read_document(document(TABLE, TRIGGER), kinds=OF_A_CHANNEL)) == 2
    assert faults_of(*ALL, kinds=OF_A_CHANNEL) == [
        (f"/{number}/kind", "bundle_kind_forbidden") for number in (3, 4, 5)
    ]


def test_a_hundred_faults_are_enough():
    assert len(faults_of(*["7"] * 1000)) == 100


def test_a_line_is_written_with_what_it_is_in_front():
    written = dump_line("command", {"name": "grün\u2028", "big": 10**300})

    assert written == '{"kind": "command", "name": "grün\u2028", "big": 1e+300}\n'
