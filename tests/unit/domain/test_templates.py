"""Tokens in action settings."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.faults import MAX_POINTER, MAX_TOLD
from shared.domain.templates import (
    MAX_RENDERED,
    TemplateContext,
    has_row_token,
    rename_row_tokens,
    render,
    template_faults,
    tokens_in,
)
from shared.errors import InvalidInput
from tests.builders import a_column

NOW = datetime(2026, 7, 25, 9, 0, 59, 999999, tzinfo=UTC)


def rendered(value, row=None, *, trigger_name="Remind"):
    context = TemplateContext(
        row=row,
        run_id=41,
        scheduled_for=datetime(2026, 7, 25, 17, 0, tzinfo=timezone(timedelta(hours=8))),
        trigger_name=trigger_name,
        now=NOW,
    )
    return render(value, context)


def tokens(text):
    return [(token.name, token.column) for token in tokens_in(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$row.name", [("row.column", "name")]),
        ("案件明天到期 $row.案件名稱。", [("row.column", "案件名稱")]),
        ("$row.案件名稱到期", [("row.column", "案件名稱到期")]),
        ("$row.स्थिति!", [("row.column", "स्थिति")]),
        ("$row.วันที่", [("row.column", "วันที่")]),
        ("$row.a.b", [("row.column", "a")]),
        ("$row.a-b", [("row.column", "a")]),
        ("$row.a$row.b", [("row.column", "a"), ("row.column", "b")]),
        ("${row.first name}x", [("row.column", "first name")]),
        ("${row.$row.a}", [("row.column", "$row.a")]),
        ("${row.}", [("row.column", "")]),
        ("See $row.", [("row", "")]),
        ("$row", [("row", "")]),
        ("$row-$now", [("row", ""), ("now", "")]),
        ("$run.id $run.scheduled_for", [("run.id", ""), ("run.scheduled_for", "")]),
        ("$trigger.name:$now.", [("trigger.name", ""), ("now", "")]),
    ],
)
def test_it_finds(text, found):
    assert tokens(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "$rows",
        "$row_a",
        "$rowé",
        "row.a",
        "$ row.a",
        "$Row.a",
        "${row}",
        "${row.a",
        "${now}",
        "$nowhere",
        "$run.ids",
        "$run.name",
        "$run",
        "$trigger.names",
        "$trigger.id",
        "$event.x $line_user.y $link.z",
        "$$",
        "$",
    ],
)
def test_plain_text_has_no_token(text):
    assert tokens(text) == []
    assert rendered(text, {"a": 1}) == text


def test_tokens_are_found_in_document_order_but_not_in_keys():
    value = {"$row.no": ["$row.a", {"x": "$row.b", "y": 1}], "z": "$now"}

    assert [token.column or token.name for token in tokens_in(value)] == ["a", "b", "now"]


def test_many_openings_without_an_end_are_read_once():
    assert tokens("${row." * 300_000) == []


@pytest.mark.parametrize("value", ["$row", "a ${row.x}", ["$row.a"], {"a": {"b": "$row.a"}}])
def test_row_tokens_are_seen(value):
    assert has_row_token(value)


@pytest.mark.parametrize("value", ["$rows", "$now", {"$row": "a"}, [], None, 1, "row"])
def test_other_values_need_no_row(value):
    assert not has_row_token(value)


@pytest.mark.parametrize("cell", [None, True, False, 0, 1.5, "text", "", [1, None], {"a": [True]}])
def test_a_template_that_is_one_token_keeps_the_type_of_the_cell(cell):
    for template in ("$row.c", "${row.c}"):
        value = rendered({"x": [template]}, {"c": cell})["x"][0]

        assert value == cell
        assert type(value) is type(cell)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-1.5, "-1.5"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (1.7976931348623157e308, "17976931348623157" + "0" * 292),
        (2**63 - 1, "9223372036854775807"),
        (10**22, "1" + "0" * 22),
        ("a", "a"),
        ([1, "é", None], '[1,"é",null]'),
        ({"a": {"b": True}}, '{"a":{"b":true}}'),
    ],
)
def test_inside_a_longer_text_a_cell_is_text(cell, text):
    assert rendered("<$row.c>", {"c": cell}) == f"<{text}>"
    assert rendered("${row.c}$row.c", {"c": cell}) == text + text


def test_a_bare_row_is_the_snapshot():
    row = {"名": "x", "n": 1}

    assert rendered("$row", row) == row
    assert rendered("row: $row", row) == 'row: {"名":"x","n":1}'


def test_what_the_run_is_about():
    assert rendered("$run.id") == 41
    assert rendered("#$run.id") == "#41"
    assert rendered("$run.scheduled_for") == "2026-07-25T09:00:00Z"
    assert rendered("$now") == "2026-07-25T09:00:59Z"
    assert rendered("$trigger.name") == "Remind"
    assert rendered("$trigger.name", trigger_name="$now") == "$now"


def test_the_first_year_is_written_with_four_digits():
    context = TemplateContext(
        row=None,
        run_id=1,
        scheduled_for=datetime.min.replace(tzinfo=UTC),
        trigger_name="",
        now=NOW,
    )

    assert render("$run.scheduled_for", context) == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize("template", ["$row", "$row.c", "${row.c}"])
def test_without_a_record_every_row_token_is_the_empty_text(template):
    assert rendered(template, None) == ""
    assert rendered(f"<{template}>", None) == "<>"


def test_what_a_cell_contains_is_not_rendered_again():
    row = {"a": "$row.b", "b": "${row.a}"}

    assert rendered("$row.a", row) == "$row.b"
    assert rendered("$row.a${row.b}", row) == "$row.b${row.a}"


def test_keys_and_other_values_stay():
    value = {"$row.a": [1, True, None, 1.5]}

    assert rendered(value, {"a": "x"}) == value


def test_a_result_has_an_end():
    half = "x" * (MAX_RENDERED // 2)

    assert len(rendered(["$row.a", "$row.a"], {"a": half})) == 2
    for template in (["$row.a", "$row.a", "$row.a"], "$row.a$row.a$row.a", ["$row", "$row"]):
        with pytest.raises(InvalidInput) as refused:
            rendered(template, {"a": half})
        assert refused.value.code == "rendered_too_long"


def faults(value, *names):
    found = template_faults(value, [a_column(name=name) for name in names], "/actions/0")
    assert {fault.code for fault in found} <= {"template_column_unknown"}
    return [(fault.pointer, fault.message) for fault in found]


def test_known_columns_are_no_fault():
    assert faults({"m": "$row.a ${row.b c} $row $now"}, "a", "b c") == []


def test_so_many_faults_are_told_as_anybody_reads_at_places_of_bounded_length():
    value = {"k" * 10_000: ["$row.nope"] * 2_000}

    faults = template_faults(value, [], "/payload")

    assert len(faults) == MAX_TOLD
    assert max(len(fault.pointer) for fault in faults) <= MAX_POINTER + len("/payload//99")
    assert faults[99].pointer.endswith("…/99")


def test_an_unknown_column_is_told_with_the_way_out():
    assert faults({"a/b": ["x", "$row.名稱到期"]}, "名稱") == [
        (
            "/actions/0/a~1b/1",
            "unknown column '名稱到期' in '$row.名稱到期'. write ${row.<column>} where the name of "
            "the column ends before the next word character",
        )
    ]
    assert faults("${row.x}") == [("/actions/0", "unknown column 'x' in '${row.x}'")]


@pytest.mark.parametrize(
    ("text", "renames", "renamed"),
    [
        ("$row.a", {"a": "b"}, "$row.b"),
        ("$row.a", {"a": "b c"}, "${row.b c}"),
        ("$row.a", {"a": "名"}, "$row.名"),
        ("${row.a}x", {"a": "b"}, "${row.b}x"),
        ("$row.a, $row.b", {"a": "b", "b": "a"}, "$row.b, $row.a"),
        ("$row.ab $row ${row.a", {"a": "b"}, "$row.ab $row ${row.a"),
        ("x$row.a-", {"a": "$now"}, "x${row.$now}-"),
    ],
)
def test_a_renamed_column_is_followed(text, renames, renamed):
    assert rename_row_tokens({"k": [text, 1]}, renames) == {"k": [renamed, 1]}


names = st.text(alphabet="ab é名.$-{", min_size=1, max_size=4)
pieces = st.sampled_from(["$row.", "${row.", "$row", "}", "a", "b", "é", "名", " ", "$now", "$"])
templates = st.lists(pieces, max_size=8).map("".join)


@given(templates, names, names)
def test_a_rename_changes_no_rendered_text(text, old, new):
    before = rendered([text], {old: "<cell>"})
    after = rendered(rename_row_tokens([text], {old: new}), {new: "<cell>"})
    named = {token.column for token in tokens_in(text)}

    if named <= {old} and not has_bare_row(text):
        assert after == before


@given(templates, st.text(max_size=20))
def test_rendering_is_a_single_pass(text, cell):
    marked = rendered(f"{text} ", {"a": "\x01"})
    filled = rendered(f"{text} ", {"a": cell})

    if not has_bare_row(text):
        assert filled == marked.replace("\x01", cell)


def has_bare_row(text):
    return any(token.name == "row" for token in tokens_in(text))


@given(st.recursive(templates | st.integers(), st.lists, max_leaves=5))
def test_rendered_values_are_json(value):
    json.dumps(rendered(value, {"a": {"x": [1]}}), allow_nan=False)
