from datetime import UTC, datetime

import pytest

from shared.actions.failures import ActionFailed
from shared.actions.http import Answer, check_answer, retry_after

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def an_answer(status, *, body=b"", **headers):
    return Answer(
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=body,
    )


def failure_of(answer, **arguments):
    with pytest.raises(ActionFailed) as caught:
        check_answer(answer, now=NOW, **arguments)
    return caught.value


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_success(status):
    check_answer(an_answer(status), now=NOW)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 599])
def test_a_status_that_may_pass_is_transient(status):
    failure = failure_of(an_answer(status))

    assert failure.transient
    assert failure.result == {"status": status}


@pytest.mark.parametrize(
    "status", [300, 301, 302, 303, 304, 307, 308, 400, 401, 404, 409, 410, 422]
)
def test_a_redirect_or_another_4xx_is_permanent(status):
    failure = failure_of(an_answer(status))

    assert not failure.transient
    assert failure.retry_after is None


def test_the_detail_has_the_status_and_the_beginning_of_the_body():
    failure = failure_of(an_answer(400, body=b'{"error":\n  "no such order"}' + b"x" * 1000))

    assert failure.detail.startswith('answered 400: {"error": "no such order"}xxx')
    assert len(failure.detail) <= 300


def test_a_body_that_is_no_text_does_no_harm():
    assert (
        failure_of(an_answer(400, body=b"\xff\x00\xfe")).detail == "answered 400: \ufffd\x00\ufffd"
    )


def test_expected_statuses_replace_2xx():
    check_answer(an_answer(404), now=NOW, expected=(404, 410))

    assert failure_of(an_answer(200), expected=(404,)).detail == "answered 200"
    assert not failure_of(an_answer(200), expected=(404,)).transient
    assert failure_of(an_answer(503), expected=(404,)).transient


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("999999999", 86_400),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0),
        ("Monday, 30-Nov-26 12:01:00 GMT", 60),
        ("Mon Nov 30 12:01:00 2026", 60),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ],
)
def test_retry_after_is_read_in_both_forms(value, seconds):
    assert retry_after(value, now=NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "soon",
        "-1",
        "+5",
        "1.5",
        "1e9",
        "9999999999",
        "\uff11\uff12",
        "Mon, 99 Nov 2026 12:00:30 GMT",
        "Mon, 30 Nov 2026 12:00:30 GMT" + " " * 10_000 + "x",
        "Mon, 30 Nov 99999999999999999999 12:00:30 GMT",
    ],
)
def test_a_retry_after_that_is_neither_is_passed_over(value):
    assert retry_after(value, now=NOW) is None


def test_retry_after_counts_for_transient_failures_alone():
    assert failure_of(an_answer(503, retry_after="7")).retry_after == 7
    assert failure_of(an_answer(429, retry_after="7")).retry_after == 7
    assert failure_of(an_answer(400, retry_after="7")).retry_after is None
    assert failure_of(an_answer(500)).retry_after is None
