"""What the settings of a call become when it is made."""

from datetime import UTC, datetime

import pytest

from shared.actions.action import ActionContext, ActionFailed
from shared.actions.calls import rendered_url
from shared.domain.templates import TemplateContext
from tests.builders import TENANT_ID

NOW = datetime(2026, 7, 25, 9, 0, tzinfo=UTC)
HOSTILE = "../a?b=c&d#e/案 件"
ENCODED = "..%2Fa%3Fb%3Dc%26d%23e%2F%E6%A1%88%20%E4%BB%B6"


def context(**known):
    template = TemplateContext(
        **{"row": None, "run_id": 1, "scheduled_for": NOW, "trigger_name": "a b", "now": NOW}
        | known
    )
    return ActionContext(
        tenant_id=TENANT_ID,
        work_kind="trigger_run",
        work_id=1,
        table_id=None,
        record_id=None,
        depth=0,
        starts=1,
        template=template,
        columns=(),
        about={},
        now=NOW,
        idempotency_key="k",
        services=None,
        connect=None,
    )


ON_EVENT = {
    "event": {"x": HOSTILE, "url": "https://shop.example/a?b=c", "n": 5, "none": None},
    "line_user": {"external_id": "U/1"},
    "links": {"offer": "https://due.example/t/abc"},
}


@pytest.mark.parametrize(
    ("text", "known", "target"),
    [
        ("https://a.example/$row.x", {"row": {"x": HOSTILE}}, f"/{ENCODED}"),
        ("https://a.example/${row.x}?y", {"row": {"x": True}}, "/true?y"),
        ("https://a.example/$trigger.name", {}, "/a%20b"),
        ("https://a.example/$event.x", {}, "/$event.x"),
        ("https://a.example/$event.x", ON_EVENT, f"/{ENCODED}"),
        ("https://a.example/$event.n$event.none", ON_EVENT, "/5"),
        ("https://a.example/?u=$line_user.external_id", ON_EVENT, "/?u=U%2F1"),
        (
            "https://a.example/?to=$link.offer",
            ON_EVENT,
            "/?to=https%3A%2F%2Fdue.example%2Ft%2Fabc",
        ),
        ("$event.url", ON_EVENT, "/a?b=c"),
        ("$link.offer", ON_EVENT, "/t/abc"),
        ("$row.url", {"row": {"url": "https://shop.example/a?b=c"}}, "/a?b=c"),
    ],
)
def test_what_stands_inside_a_url_is_encoded_and_what_is_one_is_not(text, known, target):
    assert rendered_url(text, context(**known)).target == target


@pytest.mark.parametrize("text", ["$event.x", "$event.none", "https://$event.x/"])
def test_what_is_no_url_fails_the_action(text):
    known = {"event": {"x": "a b"}} if text.startswith("$") else {"event": {"x": "user@evil"}}

    with pytest.raises(ActionFailed):
        rendered_url(text, context(**known))
