import json
from base64 import b64encode
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from shared.actions.failures import ActionFailed
from shared.queries.commands import delete_command, insert_command
from tests.integration.actions.contexts import KEY, NOW, SECRET, SNAPSHOT, a_workspace, execute

SCHEMA = {
    "type": "object",
    "required": ["order"],
    "properties": {"order": {"type": "string"}, "amount": {"type": "number", "maximum": 100}},
}
INPUTS = {"order": "no. $row.案件名稱", "amount": "$row.amount"}


def an_invocation(**settings):
    return {"type": "invoke_command", "command": "ship", "inputs": INPUTS, **settings}


@pytest.fixture
def command(workspace, receiver):
    return insert_command(
        workspace.conn,
        tenant_id=workspace.tenant.id,
        name="ship",
        url=f"{receiver.url}/ship",
        input_schema=SCHEMA,
        now=NOW,
    )


def failure_of(config, context):
    with pytest.raises(ActionFailed) as caught:
        execute(config, context)
    return caught.value


@pytest.mark.usefixtures("command")
def test_the_inputs_are_posted_and_signed(workspace, receiver):
    now = datetime.now(UTC)  # the library compares with the clock of the machine

    result = execute(an_invocation(), workspace.context(now=now))

    [request] = receiver.requests
    assert result == {"status": 200}
    assert (request.method, request.target) == ("POST", "/ship")
    assert json.loads(request.body) == {"order": "no. 合約 A&B", "amount": 1.5}
    assert request.headers["idempotency-key"] == request.headers["webhook-id"] == KEY
    assert request.headers["duebook-delivery"] == "3"
    assert Webhook("whsec_" + b64encode(SECRET).decode()).verify(request.body, request.headers)


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("amount", "detail"),
    [
        (101, "input /amount does not fit: 101 is greater than the maximum of 100"),
        (None, "input /amount does not fit: None is not of type 'number'"),
    ],
)
def test_inputs_that_do_not_fit_are_not_sent(workspace, receiver, amount, detail):
    context = workspace.context(snapshot={**SNAPSHOT, "c2": amount})

    failure = failure_of(an_invocation(), context)

    assert not failure.transient
    assert failure.detail == detail
    assert receiver.requests == []


def test_a_command_that_is_gone_fails_for_good(workspace, receiver, command):
    delete_command(workspace.conn, workspace.tenant.id, command.id)

    failure = failure_of(an_invocation(), workspace.context())

    assert not failure.transient
    assert failure.detail == "the command 'ship' no longer exists"
    assert receiver.requests == []


@pytest.mark.usefixtures("command")
def test_another_tenants_command_does_not_exist(conn, caller):
    other = a_workspace(conn, caller, name="other")

    failure = failure_of(an_invocation(), other.context())

    assert failure.detail == "the command 'ship' no longer exists"


@pytest.mark.usefixtures("command")
def test_without_inputs_an_empty_object_is_judged(workspace):
    failure = failure_of({"type": "invoke_command", "command": "ship"}, workspace.context())

    assert failure.detail == "input / does not fit: 'order' is a required property"
