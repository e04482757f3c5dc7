import pytest

from shared.actions.headers import MAX_HEADERS, MAX_VALUE, header_faults


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Api-Key", "secret"),
        ("Authorization", "Bearer abc.def"),
        ("Content-Type", "text/xml; charset=utf-8"),
        ("X-Empty", ""),
        ("x_custom", "a\tb"),
    ],
)
def test_an_ordinary_header_is_taken(name, value):
    assert list(header_faults({name: value})) == []


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Accept-Encoding",
        "User-Agent",
        "Idempotency-Key",
        "Duebook-Delivery",
        "Webhook-Id",
        "webhook-signature",
        "webhook-timestamp",
    ],
)
def test_a_header_of_the_connection_or_of_ours_is_refused(name):
    assert list(header_faults({name: "x"})) == [(name, "is set by Duebook or by the connection")]


@pytest.mark.parametrize(
    "name", ["", "X Y", "X:Y", "X\r\nY", "X\n", "名", "X\x00", "(x)", "x" * 101]
)
def test_a_name_that_is_no_token_is_refused(name):
    assert list(header_faults({name: "x"})) == [(name, "is not the name of a header")]


@pytest.mark.parametrize(
    "value", ["a\r\nHost: evil", "a\nb", "a\rb", "a\x00b", "a\x7f", "名前", "caf\xe9", "a\n"]
)
def test_a_value_that_a_header_cannot_carry_is_refused(value):
    assert list(header_faults({"X-A": value})) == [
        ("X-A", "has a character that a header cannot carry")
    ]


def test_sizes_are_limited():
    too_long = {"X-A": "x" * (MAX_VALUE + 1)}
    too_many = {f"X-{number}": "x" for number in range(MAX_HEADERS + 1)}

    assert list(header_faults(too_long)) == [("X-A", "has more than 4096 characters")]
    assert list(header_faults(too_many)) == [("", "at most 50 headers can be set")]


def test_a_name_in_two_spellings_is_refused():
    assert list(header_faults({"X-A": "1", "x-a": "2"})) == [("x-a", "stands twice")]
