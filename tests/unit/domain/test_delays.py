"""The delay of an action: what is read, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.delays import (
    MAX_LINK,
    Delay,
    actions_within,
    delay_of,
    read_delay,
    without_delay,
)
from shared.domain.faults import MAX_TOLD
from shared.domain.scheduled_actions import MAX_DELAY_SECONDS
from tests.strategies import json_values

A_NOTE = {"type": "notify", "message": "nobody clicked"}
A_WAIT = {"mode": "waitForTracking", "expiresSeconds": 60, "trackingLink": "abc"}


def read(raw, *, place="trigger", schedule_kind="date_column_reached", on_expiry=False):
    return read_delay(
        raw, place=place, schedule_kind=schedule_kind, pointer="/delay", on_expiry=on_expiry
    )


def told(raw, **where):
    delay, faults = read(raw, **where)
    assert delay is None
    return [(fault.code, fault.pointer, fault.message) for fault in faults]


NORMAL = Delay(mode="normal", seconds=5)
WAIT = Delay(mode="waitForTracking", seconds=60, tracking_link="abc")


@pytest.mark.parametrize(
    ("raw", "delay"),
    [
        ({"seconds": 5}, NORMAL),
        ({"mode": "normal", "seconds": 5}, NORMAL),
        ({"seconds": 1}, Delay(mode="normal", seconds=1)),
        ({"seconds": MAX_DELAY_SECONDS}, Delay(mode="normal", seconds=366 * 24 * 60 * 60)),
        ({"seconds": 5, "expiresSeconds": 9, "delaySeconds": 7}, NORMAL),
        ({"seconds": 5, "trackingLink": "abc", "on_expire": [A_NOTE]}, NORMAL),
        ({"seconds": 5, "reEvaluateConditions": False}, NORMAL),
        (
            {"seconds": 5, "reEvaluateConditions": True},
            Delay(mode="normal", seconds=5, re_evaluate=True),
        ),
        (A_WAIT, WAIT),
        ({**A_WAIT, "seconds": 5}, WAIT),
        ({**A_WAIT, "delaySeconds": 5}, WAIT),
        ({"mode": "waitForTracking", "delaySeconds": 60, "trackingLink": "abc"}, WAIT),
        (
            {**A_WAIT, "trackingLink": "$row.link", "on_expire": [A_NOTE, A_NOTE]},
            Delay(
                mode="waitForTracking",
                seconds=60,
                tracking_link="$row.link",
                on_expire=(A_NOTE, A_NOTE),
            ),
        ),
    ],
    ids=str,
)
def test_it_is_read(raw, delay):
    assert read(raw) == (delay, [])
    assert delay_of({"type": "notify", "delay": raw}) == delay


def invalid(pointer, message):
    return ("delay_invalid", f"/delay{pointer}", message)


def out_of_bounds(key):
    message = f"delay {key} must be from 1 to 31622400, which is 366 days"
    return ("delay_out_of_bounds", f"/delay/{key}", message)


def no_number(key):
    return invalid(f"/{key}", f"delay {key} must be a whole number of seconds")


NO_LINK = invalid(
    "/trackingLink", "a delay of mode waitForTracking must have the trackingLink that it watches"
)
BAD_LINK = invalid(
    "/trackingLink", f"delay trackingLink must be a text of 1 to {MAX_LINK} characters"
)
NO_SECONDS = invalid("/seconds", "a delay of mode normal must have seconds")
NO_DEADLINE = invalid(
    "/expiresSeconds", "a delay of mode waitForTracking must have expiresSeconds or delaySeconds"
)
NO_LIST = invalid("/on_expire", "delay on_expire must be a list of 1 to 20 actions")


@pytest.mark.parametrize(
    ("raw", "faults"),
    [
        (None, [invalid("", "delay must be an object")]),
        (5, [invalid("", "delay must be an object")]),
        ([], [invalid("", "delay must be an object")]),
        ({}, [NO_SECONDS]),
        ({"expiresSeconds": 5}, [NO_SECONDS]),
        ({"mode": "normal", "trackingLink": "x"}, [NO_SECONDS]),
        ({"seconds": 0}, [out_of_bounds("seconds")]),
        ({"seconds": -1}, [out_of_bounds("seconds")]),
        ({"seconds": MAX_DELAY_SECONDS + 1}, [out_of_bounds("seconds")]),
        ({"seconds": True}, [no_number("seconds")]),
        ({"seconds": 1.0}, [no_number("seconds")]),
        ({"seconds": "5"}, [no_number("seconds")]),
        ({"seconds": None}, [no_number("seconds")]),
        ({"seconds": 5, "expiresSeconds": 0}, [out_of_bounds("expiresSeconds")]),
        ({"seconds": 5, "delaySeconds": 1.5}, [no_number("delaySeconds")]),
        (
            {"seconds": 5, "minutes": 1},
            [
                invalid(
                    "/minutes",
                    "unknown key 'minutes' in a delay. keys: mode, seconds, expiresSeconds,"
                    " delaySeconds, trackingLink, reEvaluateConditions, on_expire",
                )
            ],
        ),
        (
            {"seconds": 5, "mode": "later"},
            [invalid("/mode", "delay mode must be one of: normal, waitForTracking")],
        ),
        (
            {"seconds": 5, "mode": None},
            [invalid("/mode", "delay mode must be one of: normal, waitForTracking")],
        ),
        (
            {"seconds": 5, "reEvaluateConditions": 1},
            [invalid("/reEvaluateConditions", "delay reEvaluateConditions must be true or false")],
        ),
        ({**A_WAIT, "expiresSeconds": 0}, [out_of_bounds("expiresSeconds")]),
        ({**A_WAIT, "expiresSeconds": 0, "delaySeconds": 5}, [out_of_bounds("expiresSeconds")]),
        ({**A_WAIT, "delaySeconds": 0}, [out_of_bounds("delaySeconds")]),
        ({**A_WAIT, "expiresSeconds": False}, [no_number("expiresSeconds")]),
        ({"mode": "waitForTracking"}, [NO_DEADLINE, NO_LINK]),
        ({"mode": "waitForTracking", "seconds": 5, "trackingLink": "x"}, [NO_DEADLINE]),
        ({"mode": "waitForTracking", "delaySeconds": 5}, [NO_LINK]),
        ({**A_WAIT, "trackingLink": ""}, [BAD_LINK]),
        ({**A_WAIT, "trackingLink": None}, [BAD_LINK]),
        ({**A_WAIT, "trackingLink": "x" * (MAX_LINK + 1)}, [BAD_LINK]),
        ({"seconds": 5, "trackingLink": 5}, [BAD_LINK]),
        ({**A_WAIT, "on_expire": []}, [NO_LIST]),
        ({**A_WAIT, "on_expire": None}, [NO_LIST]),
        ({**A_WAIT, "on_expire": A_NOTE}, [NO_LIST]),
        ({**A_WAIT, "on_expire": [A_NOTE] * 21}, [NO_LIST]),
        (
            {**A_WAIT, "on_expire": [A_NOTE, 5, {"message": "x"}, {**A_NOTE, "on_error": "no"}]},
            [
                invalid("/on_expire/1", "an action must be an object"),
                invalid("/on_expire/2/type", "an action must have a type, which is a text"),
                invalid("/on_expire/3/on_error", "on_error must be one of: stop, continue"),
            ],
        ),
    ],
    ids=str,
)
def test_it_is_refused(raw, faults):
    assert told(raw) == faults


AGAIN = {"seconds": 5, "reEvaluateConditions": True}


@pytest.mark.parametrize("kind", ["interval", "daily", "cron"])
def test_without_a_row_there_are_no_conditions_to_judge_again(kind):
    message = f"a {kind} trigger has no conditions that could be judged again"

    assert told(AGAIN, schedule_kind=kind) == [invalid("/reEvaluateConditions", message)]
    assert read({"seconds": 5, "reEvaluateConditions": False}, schedule_kind=kind)[1] == []


def test_in_a_workflow_alone_a_wait_may_leave_out_its_link():
    wait = {"mode": "waitForTracking", "expiresSeconds": 60}

    assert read(wait, place="workflow", schedule_kind=None) == (
        replace(WAIT, tracking_link=None),
        [],
    )
    assert read(A_WAIT, place="workflow", schedule_kind=None) == (WAIT, [])
    assert told({**wait, "trackingLink": ""}, place="workflow", schedule_kind=None) == [BAD_LINK]
    assert told(wait, place="rule", schedule_kind=None) == [NO_LINK]
    assert told(wait) == [NO_LINK]


@pytest.mark.parametrize(
    ("place", "kind"),
    [("trigger", "date_column_reached"), ("trigger", None), ("rule", None), ("workflow", None)],
)
def test_elsewhere_conditions_may_be_judged_again(place, kind):
    delay, faults = read(AGAIN, place=place, schedule_kind=kind)

    assert faults == []
    assert delay.re_evaluate


def test_what_runs_on_expiry_may_wait_for_its_time_but_for_no_other_click():
    assert read({"seconds": 5}, on_expiry=True) == (NORMAL, [])
    assert told({**A_WAIT, "on_expire": [A_NOTE]}, on_expiry=True) == [
        invalid("/mode", "an action of on_expire cannot wait for a click again"),
        invalid("/on_expire", "an action of on_expire has no on_expire of its own"),
    ]


def test_an_action_without_a_delay_has_none():
    assert delay_of(A_NOTE) is None


def test_a_delay_is_taken_out_when_it_is_over():
    delayed = {"type": "notify", "delay": {"seconds": 5}, "message": "x"}

    assert without_delay(delayed) == {"type": "notify", "message": "x"}
    assert without_delay(A_NOTE) == A_NOTE
    assert "delay" in delayed


def test_the_actions_of_an_expiry_are_found_within_an_action():
    delayed = {**A_NOTE, "delay": {**A_WAIT, "on_expire": [A_NOTE, 5]}}

    assert list(actions_within(delayed)) == [
        ("", delayed),
        ("/delay/on_expire/0", A_NOTE),
        ("/delay/on_expire/1", 5),
    ]
    assert list(actions_within(A_NOTE)) == [("", A_NOTE)]


def test_not_all_of_very_many_unknown_keys_are_told():
    _, faults = read(dict.fromkeys(map(str, range(1000)), 1))

    assert MAX_TOLD <= len(faults) <= MAX_TOLD + 10


KEYS = st.sampled_from(
    [
        "mode",
        "seconds",
        "expiresSeconds",
        "delaySeconds",
        "trackingLink",
        "reEvaluateConditions",
        "on_expire",
        "other",
    ]
)


@given(json_values | st.dictionaries(KEYS, json_values))
def test_any_value_is_judged_and_what_is_accepted_is_within_bounds(raw):
    delay, faults = read(raw)

    assert (delay is None) == bool(faults)
    if delay is not None:
        assert type(delay.seconds) is int
        assert 1 <= delay.seconds <= MAX_DELAY_SECONDS
        assert delay_of({"delay": raw}) == delay
    assert next(actions_within(raw)) == ("", raw)
