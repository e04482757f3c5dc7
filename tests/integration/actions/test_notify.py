import json
from dataclasses import replace

import pytest

from shared.actions.addresses import AddressPolicy
from shared.actions.failures import ActionFailed
from shared.actions.http import HttpCaller
from shared.actions.registry import ACTIONS
from shared.queries.chat_messages import list_messages
from tests.integration.actions.contexts import KEY, SNAPSHOT, execute
from tests.integration.actions.receivers import a_raw_server

CHATROOM = "11111111-1111-4111-8111-111111111111"


def a_notify(message="due: $row.案件名稱"):
    return {"type": "notify", "chatroom_id": CHATROOM, "message": message}


def messages_of(workspace):
    found = list_messages(
        workspace.conn, tenant_id=workspace.tenant.id, chatroom_id=CHATROOM, limit=10
    )
    return [message.message for message in found]


@pytest.fixture
def with_gateway(workspace, receiver):
    """A workspace of an operator with a gateway, who allows no private address."""
    http = HttpCaller(policy=AddressPolicy(), ports=(443,), user_agent="Duebook/test")
    services = replace(workspace.services, http=http, gateway_url=f"{receiver.url}/messages")
    yield replace(workspace, services=services)
    http.close()


def test_a_message_is_stored_in_the_chatroom(workspace):
    result = execute(a_notify(), workspace.context())

    [stored] = list_messages(
        workspace.conn, tenant_id=workspace.tenant.id, chatroom_id=CHATROOM, limit=10
    )
    assert stored.message == "due: 合約 A&B"
    assert result == {"message_id": stored.id}


@pytest.mark.parametrize(
    ("message", "text"), [("$row.amount", "1.5"), ("$run.id", "41"), ("${row.到期時間}", "20:00")]
)
def test_a_message_is_text_whatever_the_cell_is(workspace, message, text):
    execute(a_notify(message), workspace.context(snapshot={**SNAPSHOT, "c3": "20:00"}))

    assert messages_of(workspace) == [text]


def test_a_run_without_a_row_renders_empty(workspace):
    execute(a_notify("[$row.案件名稱$row]"), workspace.recordless())

    assert messages_of(workspace) == ["[]"]


def test_a_second_execution_stores_no_second_message(workspace):
    first = execute(a_notify(), workspace.context())
    second = execute(a_notify(), workspace.context(starts=4))

    assert first == second
    assert len(messages_of(workspace)) == 1


def test_a_message_that_grows_too_long_fails_for_good(workspace):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": "x" * 10_000})

    with pytest.raises(ActionFailed, match="more than 10000 characters") as caught:
        execute(a_notify("due: $row.案件名稱"), context)

    assert not caught.value.transient
    assert messages_of(workspace) == []


def test_only_a_gateway_makes_it_external(workspace, with_gateway):
    assert ACTIONS["notify"].effect(workspace.services) == "internal"
    assert ACTIONS["notify"].effect(with_gateway.services) == "external"


def test_the_gateway_gets_the_stored_message(with_gateway, receiver):
    result = execute(a_notify(), with_gateway.context())

    [request] = receiver.requests
    assert (request.method, request.target) == ("POST", "/messages")
    assert request.headers["idempotency-key"] == KEY
    assert json.loads(request.body) == {
        "tenant_id": str(with_gateway.tenant.id),
        "chatroom_id": CHATROOM,
        "message_id": result["message_id"],
        "message": "due: 合約 A&B",
    }
    assert result["gateway"] == {"ok": True, "status": 200}


def test_a_failing_gateway_has_its_own_outcome_and_the_message_stays(with_gateway, receiver):
    receiver.answers = [(503, {"Retry-After": "9"}, b"busy"), (200, {}, b"")]

    with pytest.raises(ActionFailed) as caught:
        execute(a_notify(), with_gateway.context())
    again = execute(a_notify(), with_gateway.context(starts=4))

    failure = caught.value
    assert failure.detail == "the message is stored, the gateway failed: answered 503: busy"
    assert (failure.transient, failure.retry_after) == (True, 9)
    assert failure.result == {
        "message_id": again["message_id"],
        "gateway": {"ok": False, "status": 503},
    }
    assert len(messages_of(with_gateway)) == 1
    assert [each.headers["idempotency-key"] for each in receiver.requests] == [KEY, KEY]


def test_a_gateway_that_does_not_answer_leaves_the_outcome_unknown(workspace):
    with a_raw_server(lambda server, sock: server.read_request(sock)) as gateway:
        services = replace(workspace.services, gateway_url=gateway.url, deadline_seconds=2)
        with pytest.raises(ActionFailed) as caught:
            execute(a_notify(), workspace.context(services=services))

    assert caught.value.unknown
