"""One run, and one event's action, from where they begin to the call they make, in traces."""

import socket
from uuid import uuid4

import pytest

from tests.e2e.installation import Workspace, notify, scheduled
from tests.servers.collector import a_collector

_SERVER, _CLIENT, _PRODUCER, _CONSUMER = 2, 3, 4, 5


@pytest.fixture
def collector():
    with a_collector() as running:
        yield running


@pytest.fixture
def traced(install, amqp_url, collector):
    """An installation that sends traces, and soon."""
    installation = install(
        amqp_url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="100"
    )
    for service in ("api", "scanner", "worker"):
        installation.start(service)
    installation.wait(installation.answers)
    return installation


@pytest.fixture
def workspace(traced):
    workspace = Workspace(traced)
    workspace.call("POST", "/v1/signing-keys")
    return workspace


def _one(items):
    [item] = items
    return item


def test_a_run_is_followed_from_the_tick_to_the_webhook(
    traced, workspace, collector, receiver, amqp_url
):
    table = workspace.make_table("cases", title="text", due="datetime")
    hook = {"type": "webhook", "url": f"{receiver.url}/$row.title?secret=$row.title"}
    later = {**hook, "url": f"{receiver.url}/later", "delay": {"mode": "normal", "seconds": 1}}
    trigger = scheduled({"type": "date_column_reached", "column": "due"}, hook, later)
    workspace.set_triggers(table, trigger)
    workspace.make_record(table, title="hunter2", due="2026-01-01 00:00")

    traced.wait(lambda: len(receiver.requests) == 2)
    run = _one(workspace.call("GET", f"/tenant/custom-tables/tables/{table}/trigger-runs")["items"])
    action = _one(workspace.call("GET", "/v1/scheduled-actions")["items"])
    of_run = {"trigger_run date_column_reached", "fire", "execute", "action webhook", "POST"}
    of_run |= {"action delay"} | ({"announce"} if amqp_url else set())
    of_action = {"scheduled_action webhook", "record", "execute", "action webhook", "POST"}
    of_action |= {"announce"} if amqp_url else set()
    traced.wait(lambda: collector.trace(run["trace_id"]).keys() >= of_run)
    traced.wait(lambda: collector.trace(action["trace_id"]).keys() >= of_action)

    told = collector.trace(run["trace_id"])
    assert told.keys() == of_run
    root, execute = told["trigger_run date_column_reached"], told["execute"]
    assert root.parent_id == ""
    beneath_root = {name: told[name].parent_id for name in of_run & {"fire", "announce", "execute"}}
    assert beneath_root == dict.fromkeys(beneath_root, root.span_id)
    assert told["action webhook"].parent_id == told["action delay"].parent_id == execute.span_id
    assert told["POST"].parent_id == told["action webhook"].span_id
    assert (execute.kind, told["POST"].kind) == (_CONSUMER, _CLIENT)
    assert {name: told[name].kind for name in of_run & {"announce"}} in (
        {},
        {"announce": _PRODUCER},
    )
    assert {span.service for span in told.values()} == {"duebook-scanner", "duebook-worker"}
    due_pass = [span for span in collector.spans() if told["fire"].links[0][1] == span.span_id]
    assert _one(due_pass).name in ("due_pass", "catch_up", "round")
    assert execute.attributes["duebook.run_id"] == run["id"]
    assert execute.attributes["duebook.trigger_id"] == run["trigger_id"]
    assert execute.attributes["duebook.attempt"] == execute.attributes["duebook.starts"] == 1

    called, called_later = (request.headers["traceparent"] for request in receiver.requests)
    assert called == f"00-{run['trace_id']}-{told['POST'].span_id}-01"
    assert called_later.split("-")[1] == action["trace_id"] != run["trace_id"]
    call = told["POST"].attributes
    assert call["http.request.method"] == "POST"
    assert call["http.response.status_code"] == 200
    assert (call["server.address"], call["server.port"]) == ("127.0.0.1", receiver.port)
    assert call["url.template"] == f"{receiver.url}/$row.title"

    delayed = collector.trace(action["trace_id"])
    assert delayed.keys() == of_action
    assert delayed["record"].links == [(run["trace_id"], told["action delay"].span_id)]
    assert (run["trace_id"], root.span_id) in delayed["scheduled_action webhook"].links
    plain = delayed["POST"].attributes
    assert plain["url.full"] == f"{receiver.url}/later"
    assert all(b"hunter2" not in each.body for each in collector.receiver.requests)


def test_an_event_is_followed_from_the_request_over_a_workflow_to_the_call(
    traced, workspace, collector, receiver
):
    hook = {"type": "webhook", "url": f"{receiver.url}/first"}
    nodes = [
        {"type": "action", "action": hook},
        {"type": "action", "action": {**hook, "url": f"{receiver.url}/second"}},
    ]
    workflow = workspace.call("POST", "/v1/workflows", {"name": "both", "nodes": nodes})
    start = {"type": "start_workflow", "workflow": workflow["name"]}
    rule = {"name": "bought", "event": "bought", "actions": [start]}
    workspace.call("POST", "/v1/trigger-rules", rule)

    event = workspace.call("POST", "/v1/events", {"name": "bought"})
    traced.wait(lambda: len(receiver.requests) == 2)
    actions = workspace.call("GET", "/v1/scheduled-actions")["items"]
    second, first, started = actions
    assert [started["id"]] == event["scheduled_action_ids"]
    assert first["trace_id"] == second["trace_id"] != started["trace_id"]
    of_start = {"record", "scheduled_action start_workflow", "execute", "action start_workflow"}
    of_steps = {"start", "workflow_execution", "scheduled_action webhook", "execute", "POST"}
    traced.wait(lambda: collector.trace(started["trace_id"]).keys() >= of_start)
    traced.wait(lambda: collector.trace(first["trace_id"]).keys() >= of_steps)
    for twice in ("scheduled_action webhook", "execute", "POST"):
        traced.wait(lambda name=twice: len(_all(collector, first["trace_id"], name)) == 2)

    request = _one(collector.named("POST /v1/events"))
    assert (request.kind, request.service) == (_SERVER, "duebook-api")
    assert request.attributes["http.response.status_code"] == 201
    begun = collector.trace(started["trace_id"])
    assert begun["record"].links == [(request.trace_id, request.span_id)]
    assert (started["trace_id"], begun["record"].parent_id) in request.links
    steps = collector.trace(first["trace_id"])
    assert steps["start"].links == [(started["trace_id"], begun["action start_workflow"].span_id)]
    root = _one(_all(collector, first["trace_id"], "workflow_execution"))
    told = _all(collector, first["trace_id"], "scheduled_action webhook")
    assert [span.parent_id for span in told] == [root.span_id] * 2
    executed = _all(collector, first["trace_id"], "execute")
    assert {span.parent_id for span in executed} == {span.span_id for span in told}
    calls = [request.headers["traceparent"].split("-")[1] for request in receiver.requests]
    assert calls == [first["trace_id"]] * 2


@pytest.fixture
def processes(install):
    """Starts an API, a scanner and a worker; what ends them returns how each did."""

    def start(url):
        # No batch is full, or old enough, by itself: whatever is sent is sent at the end.
        installation = install(
            None, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_BSP_SCHEDULE_DELAY="3600000"
        )
        children = [installation.start(service) for service in ("api", "scanner", "worker")]
        installation.wait(installation.answers)
        return installation, lambda: [child.stop(seconds=60) for child in children]

    return start


def _tell_of_a_record(installation):
    workspace = Workspace(installation)
    table, chatroom = workspace.make_table("cases", title="text", due="datetime"), str(uuid4())
    due = {"type": "date_column_reached", "column": "due"}
    workspace.set_triggers(table, scheduled(due, notify("$row.title", chatroom=chatroom)))
    workspace.make_record(table, title="paper", due="2026-01-01 00:00")
    installation.wait(lambda: workspace.messages(chatroom) == ["paper"])


def test_each_process_sends_what_it_has_when_it_ends(processes, collector):
    installation, end_all = processes(collector.url)
    _tell_of_a_record(installation)

    assert collector.spans() == []
    assert end_all() == [0, 0, 0]
    names = {span.service: set() for span in collector.spans()}
    for span in collector.spans():
        names[span.service].add(span.name)
    assert names.keys() == {"duebook-api", "duebook-scanner", "duebook-worker"}
    assert "fire" in names["duebook-scanner"]
    assert {"execute", "action notify"} <= names["duebook-worker"]


def test_a_collector_that_takes_everything_and_never_answers_holds_up_nobody(processes):
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        installation, end_all = processes(f"http://127.0.0.1:{frozen.getsockname()[1]}")
        _tell_of_a_record(installation)

        assert end_all() == [0, 0, 0]


def _all(collector, trace_id, name):
    return [span for span in collector.named(name) if span.trace_id == trace_id]
