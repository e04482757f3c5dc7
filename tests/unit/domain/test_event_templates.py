"""Tokens of events, contacts and links, which count in rules and workflows alone."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.faults import MAX_TOLD
from shared.domain.templates import (
    TemplateContext,
    link_faults,
    render,
    row_token_pointers,
    tokens_in,
)
from tests.strategies import json_values

NOW = datetime(2026, 7, 25, 9, 0, tzinfo=UTC)
EVENT = {"name": "purchase", "total": 5.0, "nested": {"a": [1]}, "says": "$event.total", "無": None}
CONTACT = {"id": 7, "external_id": "U1", "display_name": None, "my tier": "gold"}
LINKS = {"offer": "https://due.example/t/abc"}


def rendered(value, *, event=EVENT, line_user=CONTACT, links=LINKS):
    context = TemplateContext(
        row=None,
        run_id=41,
        scheduled_for=NOW,
        trigger_name="Thanks",
        now=NOW,
        event=event,
        line_user=line_user,
        links=links,
    )
    return render(value, context)


def tokens(text):
    return [(token.name, token.member) for token in tokens_in(text, on_events=True)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$event.name", [("event.key", "name")]),
        ("$event.a.b", [("event.key", "a")]),
        ("${event.a.b}", [("event.key", "a.b")]),
        ("${event.order no}x", [("event.key", "order no")]),
        ("$event.訂單號。", [("event.key", "訂單號")]),
        ("See $event.", [("event", "")]),
        ("$event,$now", [("event", ""), ("now", "")]),
        ("$line_user.id", [("line_user.attribute", "id")]),
        ("${line_user.my tier}", [("line_user.attribute", "my tier")]),
        ("$link.offer!", [("link.name", "offer")]),
        ("${link.offer}here", [("link.name", "offer")]),
        ("$row.a $event.b", [("row.column", "a"), ("event.key", "b")]),
        ("${event.$row.a}", [("event.key", "$row.a")]),
    ],
)
def test_it_finds(text, found):
    assert tokens(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "$events",
        "$event_name",
        "$line_user",
        "$line_user.",
        "$line_users.x",
        "$link",
        "$links.x",
        "$link.",
        "${event}",
        "${link.x",
        "${line_user}",
        "$Event.x",
        "event.x",
        "$link_user.x",
    ],
)
def test_plain_text_has_no_token(text):
    assert tokens(text) == []
    assert rendered(text) == text


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("$event.total", 5.0),
        ("${event.nested}", {"a": [1]}),
        ("$event", EVENT),
        ("$event.missing", None),
        ("$event.無", None),
        ("$line_user.id", 7),
        ("$line_user.display_name", None),
        ("${line_user.my tier}", "gold"),
        ("$line_user.missing", None),
        ("$link.offer", "https://due.example/t/abc"),
        ("$row", ""),
        ("$row.total", ""),
        ("$trigger.name", "Thanks"),
        ("$event.name: $event.total, $event.missing.", "purchase: 5.0, ."),
        ("Hi ${line_user.display_name}$line_user.external_id", "Hi U1"),
        ("Look: $link.offer", "Look: https://due.example/t/abc"),
        (
            "$event.name $event",
            'purchase {"name":"purchase","total":5.0,"nested":{"a":[1]},'
            '"says":"$event.total","無":null}',
        ),
    ],
)
def test_a_token_stands_for(template, value):
    assert rendered(template) == value
    assert rendered({"x": [template]}) == {"x": [value]}


@pytest.mark.parametrize("template", ["$event.says", "> $event.says", "${event.says}"])
def test_what_a_value_contains_is_no_template(template):
    assert rendered(template).endswith("$event.total")


@pytest.mark.parametrize(
    ("template", "value"),
    [("$line_user.id", None), ("Hi $line_user.id!", "Hi !"), ("$link.offer", None)],
)
def test_without_contact_and_links_their_tokens_are_null(template, value):
    assert rendered(template, line_user=None, links=None) == value


def test_an_event_without_data_still_makes_tokens():
    assert rendered(["$event.a", "$event", "$line_user.id"], event={}) == [None, {}, 7]


@pytest.mark.parametrize("text", ["$event.name", "$event", "${line_user.id}", "$link.offer"])
def test_without_an_event_they_are_plain_text(text):
    assert rendered(text, event=None) == text


@given(st.text(alphabet="${}.eventrowlink_user 案", max_size=60))
def test_tokens_lie_in_the_text_one_behind_the_other(text):
    end = 0
    for token in tokens_in(text, on_events=True):
        assert end <= token.start < token.end <= len(text)
        assert text[token.start] == "$"
        assert token.member in text[token.start : token.end]
        end = token.end


@given(json_values)
def test_any_value_is_rendered(value):
    rendered(value)


def test_openings_without_an_end_are_read_once():
    assert tokens("${event." * 300_000) == []


def test_row_tokens_are_found_beside_those_of_events():
    value = {"a": "$event.x $row.y", "b": ["${event.$row.a}", "$row"], "c": "$event.row"}

    assert list(row_token_pointers(value, "/p", on_events=True)) == ["/p/a", "/p/b/1"]


def test_an_unknown_link_is_told_at_its_place():
    value = {"a/b": ["$link.offer", "see $link.offerhere", "${link.no}"], "c": "$link."}

    found = link_faults(value, {"offer"}, "/message")

    assert [(fault.code, fault.pointer, fault.message) for fault in found] == [
        (
            "template_link_unknown",
            "/message/a~1b/1",
            "unknown link 'offerhere' in '$link.offerhere'. "
            "write ${link.<name>} where the name of the link ends before the next word character",
        ),
        ("template_link_unknown", "/message/a~1b/2", "unknown link 'no' in '${link.no}'"),
    ]


def test_not_all_of_very_many_unknown_links_are_told():
    assert len(link_faults(["$link.x"] * 1000, ())) == MAX_TOLD
