"""Outgoing calls as traces tell them, and what they tell their receivers of the trace."""

from ipaddress import ip_network

import pytest

from shared.actions.addresses import AddressPolicy
from shared.actions.failures import ActionFailed
from shared.actions.http import Call, HttpCaller
from shared.actions.urls import parse_url
from shared.observability import tracing
from shared.settings import read_settings
from tests.integration.actions.receivers import a_receiver
from tests.servers.collector import a_collector


@pytest.fixture
def receiver():
    with a_receiver() as running:
        yield running


@pytest.fixture
def collector(monkeypatch):
    """A collector that this process sends to; what it made is there after ``tracing.stop``."""
    with a_collector() as running:
        monkeypatch.setenv("DATABASE_URL", "postgresql://nowhere/x")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        tracing.start(read_settings("worker"), service="worker")
        yield running
        tracing.stop()


@pytest.fixture
def send(receiver):
    caller = HttpCaller(
        policy=AddressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),)),
        ports=[receiver.port],
        user_agent="test",
    )

    def send(path="/", **headers):
        url = parse_url(f"{receiver.url}{path}")
        return caller.send(Call(method="POST", url=url, headers=headers), deadline_seconds=10)

    yield send
    caller.close()


def test_a_call_tells_its_receiver_the_trace_and_us_its_outcome(collector, receiver, send):
    send("/hook?key=hunter2")
    tracing.stop()

    [span], [request] = collector.spans(), receiver.requests
    assert request.headers["traceparent"] == f"00-{span.trace_id}-{span.span_id}-01"
    assert span.attributes == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": receiver.port,
        "url.full": f"{receiver.url}/hook",
        "http.response.status_code": 200,
    }


@pytest.mark.parametrize("name", ["traceparent", "TraceParent"])
def test_a_header_of_the_author_wins(collector, receiver, send, name):
    send(**{name: "theirs"})

    assert receiver.requests[0].headers["traceparent"] == "theirs"
    assert "tracestate" not in receiver.requests[0].headers


def test_an_error_that_was_answered_is_told_by_its_status(collector, receiver, send):
    receiver.answers = [(503, {}, b"hunter2")]
    send()
    tracing.stop()

    [span] = collector.spans()
    assert (span.failed, span.attributes["error.type"]) == (True, "503")
    assert b"hunter2" not in collector.receiver.requests[0].body


def test_a_call_that_is_not_allowed_is_told_as_refused(collector, receiver, send):
    receiver.port += 1
    with pytest.raises(ActionFailed):
        send()
    tracing.stop()

    [span] = collector.spans()
    assert (span.failed, span.attributes["error.type"]) == (True, "Refused")
    assert "http.response.status_code" not in span.attributes


def test_without_traces_no_header_is_added(receiver, send):
    send()

    assert not {"traceparent", "tracestate"} & receiver.requests[0].headers.keys()
