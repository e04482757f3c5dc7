"""The document tells of delays what the domain takes, no more and no less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from services.api.openapi import build_document
from shared.actions.registry import ACTIONS
from shared.domain.delays import MODES, SECONDS, read_delay
from shared.domain.scheduled_actions import MAX_DELAY_SECONDS

NOTE = {
    "type": "notify",
    "chatroom_id": "11111111-1111-4111-8111-111111111111",
    "message": "x",
}


@pytest.fixture(scope="module")
def components():
    return build_document()["components"]


@pytest.fixture(scope="module")
def documented(components):
    """Tells whether a component describes a value."""

    def is_valid(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        return Draft202012Validator(schema).is_valid(value)

    return is_valid


def is_taken(raw):
    """Tells whether it is taken in a workflow, where a wait may leave out its link."""
    return not read_delay(raw, place="workflow", schedule_kind=None, pointer="")[1]


_SECONDS = st.sampled_from(
    [0, 1, 60, MAX_DELAY_SECONDS, MAX_DELAY_SECONDS + 1, -1, True, "5", None]
)
_DELAYS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from([*MODES, "later", None]),
        **dict.fromkeys(SECONDS, _SECONDS),
        "trackingLink": st.sampled_from(["abc", "$row.x", "", "x" * 500, "x" * 501, 5]),
        "reEvaluateConditions": st.sampled_from([True, False, 1, None]),
        "on_expire": st.sampled_from([[NOTE], [NOTE] * 20, [NOTE] * 21, [], NOTE, [5]]),
        "other": st.none(),
    },
)


@given(raw=_DELAYS | st.none() | st.lists(st.none()))
def test_what_the_document_describes_is_what_is_taken(documented, raw):
    assert documented("Delay", raw) == is_taken(raw)


@pytest.mark.parametrize("seconds", [{key: 60} for key in SECONDS], ids=str)
@pytest.mark.parametrize("mode", [{}, *({"mode": mode} for mode in MODES)], ids=str)
@pytest.mark.parametrize("link", [{}, {"trackingLink": "abc"}], ids=str)
def test_each_mode_needs_its_own_keys(documented, seconds, mode, link):
    raw = {**seconds, **mode, **link}

    assert documented("Delay", raw) == is_taken(raw)


@pytest.mark.parametrize("action_type", ACTIONS)
def test_every_action_may_have_a_delay(components, action_type):
    name = ACTIONS[action_type].schema.__name__.removesuffix("Schema")

    assert components["schemas"][name]["properties"]["delay"]["allOf"] == [
        {"$ref": "#/components/schemas/Delay"}
    ]


def test_a_delayed_action_is_an_action(documented):
    late = {**NOTE, "delay": {"seconds": 60}}
    wait = {"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": "a", "on_expire": [late]}

    assert documented("Action", late)
    assert documented("Action", {**NOTE, "delay": wait})
    assert documented("Action", {"type": "start_workflow", "workflow": "w", "delay": wait})
    assert not documented("Action", {**NOTE, "delay": {}})


def test_that_a_link_is_needed_outside_of_workflows_is_said(components):
    wait = {"mode": "waitForTracking", "expiresSeconds": 60}
    told = components["schemas"]["Delay"]

    assert read_delay(wait, place="rule", schedule_kind=None, pointer="")[1]
    assert "Required in mode waitForTracking" in told["properties"]["trackingLink"]["description"]
