import json

import pytest

from shared.actions.failures import ActionFailed
from tests.integration.actions.contexts import KEY, SNAPSHOT, execute


def an_api_call(receiver, *, method="POST", path="/orders", **settings):
    return {"type": "api_call", "method": method, "url": receiver.url + path, **settings}


def failure_of(config, context):
    with pytest.raises(ActionFailed) as caught:
        execute(config, context)
    return caught.value


def test_a_call_with_a_json_body(workspace, receiver):
    body = {"case": "$row.案件名稱", "amount": "$row.amount", "note": "for $row.amount"}

    result = execute(
        an_api_call(receiver, method="PUT", headers={"X-A": "b"}, body=body), workspace.context()
    )

    [request] = receiver.requests
    assert result == {"status": 200}
    assert (request.method, request.target) == ("PUT", "/orders")
    assert json.loads(request.body) == {"case": "合約 A&B", "amount": 1.5, "note": "for 1.5"}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-a"] == "b"
    assert request.headers["idempotency-key"] == KEY
    assert request.headers["duebook-delivery"] == "3"
    assert "webhook-signature" not in request.headers


@pytest.mark.parametrize(
    ("body", "sent", "content_type"),
    [
        ("<a>$row.案件名稱</a>", "<a>合約 A&B</a>", "text/plain; charset=utf-8"),
        ("$row.案件名稱", "合約 A&B", "text/plain; charset=utf-8"),
        ("$row.amount", "1.5", "application/json"),
        (None, "null", "application/json"),
        ([True, 1], "[true,1]", "application/json"),
    ],
)
def test_a_text_is_sent_as_it_is_and_the_rest_as_json(
    workspace, receiver, body, sent, content_type
):
    execute(an_api_call(receiver, body=body), workspace.context())

    [request] = receiver.requests
    assert request.body.decode() == sent
    assert request.headers["content-type"] == content_type


def test_the_author_names_the_type_of_the_body(workspace, receiver):
    headers = {"content-type": "text/xml"}

    execute(an_api_call(receiver, headers=headers, body="<a/>"), workspace.context())

    assert receiver.requests[0].headers["content-type"] == "text/xml"


def test_without_a_body_none_is_sent(workspace, receiver):
    execute(an_api_call(receiver, method="GET"), workspace.context())

    [request] = receiver.requests
    assert request.body == b""
    assert "content-type" not in request.headers


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/orders", "/orders?case=%E5%90%88%E7%B4%84+A%26B&tag=1&tag=true&none="),
        ("/orders?x=1", "/orders?x=1&case=%E5%90%88%E7%B4%84+A%26B&tag=1&tag=true&none="),
    ],
)
def test_the_query_is_encoded_behind_the_urls_own(workspace, receiver, path, target):
    query = {"case": "$row.案件名稱", "tag": [1, True], "none": None}

    execute(an_api_call(receiver, method="GET", path=path, query=query), workspace.context())

    assert receiver.requests[0].target == target


def test_a_query_that_makes_the_url_too_long_fails_for_good(workspace, receiver):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": "x" * 3000})

    failure = failure_of(an_api_call(receiver, method="GET", query={"a": "$row.案件名稱"}), context)

    assert not failure.transient
    assert failure.detail == "the URL with its query has more than 2048 characters"


@pytest.mark.parametrize("expected", [404, [404, 410]])
def test_an_expected_status_is_success(workspace, receiver, expected):
    receiver.answers = [(404, {}, b"")]

    result = execute(an_api_call(receiver, expect_status=expected), workspace.context())

    assert result == {"status": 404}


def test_an_unexpected_2xx_fails_for_good(workspace, receiver):
    receiver.answers = [(200, {}, b"ok")]

    failure = failure_of(an_api_call(receiver, expect_status=201), workspace.context())

    assert failure.detail == "answered 200: ok"
    assert not failure.transient


def test_an_unexpected_5xx_is_still_transient(workspace, receiver):
    receiver.answers = [(502, {}, b"")]

    assert failure_of(an_api_call(receiver, expect_status=201), workspace.context()).transient


def test_a_body_beyond_the_limit_is_not_sent(workspace, receiver):
    failure = failure_of(an_api_call(receiver, body="x" * 1_048_577), workspace.context())

    assert not failure.transient
    assert failure.detail == "the body has more than 1048576 bytes"
    assert receiver.requests == []
