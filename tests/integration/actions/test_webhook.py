import json
import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from shared.actions.failures import ActionFailed
from shared.queries.tenants import expire_signing_keys, insert_signing_key
from shared.sealing import Sealer
from tests.integration.actions.contexts import KEY, NOW, SECRET, SNAPSHOT, execute


def a_webhook(receiver, **settings):
    return {"type": "webhook", "url": f"{receiver.url}/in", **settings}


def verify(request, secret=SECRET):
    return Webhook("whsec_" + b64encode(secret).decode()).verify(request.body, request.headers)


def failure_of(config, context):
    with pytest.raises(ActionFailed) as caught:
        execute(config, context)
    return caught.value


def test_the_event_says_what_fired_for_which_row(workspace, receiver):
    payload = {"text": "due: $row.到期時間", "amount": "$row.amount", "run": "$run.id"}

    result = execute(a_webhook(receiver, payload=payload), workspace.context())

    [request] = receiver.requests
    assert result == {"status": 200}
    assert (request.method, request.target) == ("POST", "/in")
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {
        "type": "trigger.fired",
        "timestamp": "2026-11-30T12:00:00Z",
        "data": {
            "tenant_id": str(workspace.tenant.id),
            "table_id": str(workspace.table.id),
            "trigger": {"id": "trg_0123456789ab", "name": "remind"},
            "run": {
                "id": 41,
                "kind": "date_column_reached",
                "scheduled_for": "2026-11-30T12:00:00Z",
                "identity": "2026-11-30 20:00",
                "window_key": None,
            },
            "record": {
                "id": 7,
                "data": {"案件名稱": "合約 A&B", "amount": 1.5, "到期時間": "2026-11-30 20:00"},
            },
            "payload": {"text": "due: 2026-11-30 20:00", "amount": 1.5, "run": 41},
        },
    }


def test_the_event_of_a_recordless_run_has_no_record(workspace, receiver):
    execute(a_webhook(receiver, payload="row: $row.案件名稱"), workspace.recordless())

    data = json.loads(receiver.requests[0].body)["data"]
    assert data["record"] is None
    assert data["payload"] == "row: "
    assert data["run"]["window_key"] == "20261130"


def test_a_receiver_verifies_it_with_the_standards_own_library(workspace, receiver):
    now = datetime.now(UTC)  # the library compares with the clock of the machine

    execute(a_webhook(receiver), workspace.context(now=now))

    assert verify(receiver.requests[0])["type"] == "trigger.fired"


def test_while_keys_rotate_either_verifies_and_an_expired_one_does_not(workspace, receiver):
    now = datetime.now(UTC)
    tenant_id = workspace.tenant.id
    expire_signing_keys(workspace.conn, tenant_id=tenant_id, at=now - timedelta(days=1))
    for secret in (b"a" * 24, b"b" * 24):
        insert_signing_key(
            workspace.conn, tenant_id=tenant_id, secret=Sealer().seal(secret), now=now
        )

    execute(a_webhook(receiver), workspace.context(now=now))

    [request] = receiver.requests
    assert verify(request, b"a" * 24)
    assert verify(request, b"b" * 24)
    assert len(request.headers["webhook-signature"].split()) == 2


def test_every_attempt_has_the_same_id_and_body_and_its_own_time(workspace, receiver):
    for start in (1, 2):
        execute(
            a_webhook(receiver),
            workspace.context(starts=start, now=NOW + timedelta(minutes=start)),
        )

    first, second = receiver.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == KEY
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == KEY
    assert [each.headers["duebook-delivery"] for each in (first, second)] == ["1", "2"]
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]


def test_headers_are_rendered(workspace, receiver):
    headers = {"X-Amount": "$row.amount", "X-Of": "run $run.id"}

    execute(a_webhook(receiver, headers=headers), workspace.context())

    assert receiver.requests[0].headers["x-amount"] == "1.5"
    assert receiver.requests[0].headers["x-of"] == "run 41"


@pytest.mark.parametrize("cell", ["a\r\nHost: evil", "名稱", "x" * 5000])
def test_a_cell_that_a_header_cannot_carry_fails_for_good(workspace, receiver, cell):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": cell})

    failure = failure_of(a_webhook(receiver, headers={"X-A": "$row.案件名稱"}), context)

    assert not failure.transient
    assert failure.detail.startswith("header 'X-A' has ")
    assert receiver.requests == []


def test_a_cell_inside_the_url_is_encoded(workspace, receiver):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": "合約/../A?b=c#d"})
    config = {"type": "webhook", "url": f"{receiver.url}/cases/$row.案件名稱?n=${{row.amount}}"}

    execute(config, context)

    assert receiver.requests[0].target == "/cases/%E5%90%88%E7%B4%84%2F..%2FA%3Fb%3Dc%23d?n=1.5"


def test_a_cell_that_is_the_whole_url_is_taken_as_it_is(workspace, receiver):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": f"{receiver.url}/a?b=c"})

    execute({"type": "webhook", "url": "${row.案件名稱}"}, context)

    assert receiver.requests[0].target == "/a?b=c"


@pytest.mark.parametrize(
    "url", ["${row.案件名稱}", "http://$row.案件名稱/", "http://127.0.0.1:${row.案件名稱}/"]
)
@pytest.mark.parametrize("cell", ["", None, "file:///etc/passwd", "user@host", "http://a b/", "例"])
def test_a_cell_that_makes_no_url_fails_for_good(workspace, url, cell):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": cell})

    failure = failure_of({"type": "webhook", "url": url}, context)

    assert not failure.transient
    assert failure.detail.startswith("the URL cannot be called: ")


def test_a_run_without_a_row_has_no_url_from_it(workspace):
    failure = failure_of({"type": "webhook", "url": "$row.案件名稱"}, workspace.recordless())

    assert failure.detail == (
        "the URL cannot be called: a URL is printable ASCII without blanks and backslashes"
    )


def test_a_failing_receiver_is_told_in_the_receipt(workspace, receiver):
    receiver.answers = [(503, {"Retry-After": "30"}, b"busy")]

    failure = failure_of(a_webhook(receiver), workspace.context())

    assert failure.detail == "answered 503: busy"
    assert (failure.transient, failure.retry_after) == (True, 30)
    assert failure.result == {"status": 503}


def test_a_receiver_that_is_gone_stops_the_retries(workspace, receiver):
    receiver.answers = [(410, {}, b"")]

    assert not failure_of(a_webhook(receiver), workspace.context()).transient


def test_a_redirect_fails_for_good(workspace, receiver):
    receiver.answers = [(301, {"Location": "https://example.com/"}, b"")]

    assert not failure_of(a_webhook(receiver), workspace.context()).transient


def test_a_tenant_without_a_key_sends_nothing(workspace, receiver):
    expire_signing_keys(workspace.conn, tenant_id=workspace.tenant.id, at=NOW - timedelta(days=1))

    failure = failure_of(a_webhook(receiver), workspace.context())

    assert not failure.transient
    assert failure.detail == "the tenant has no signing key"
    assert receiver.requests == []


def test_no_session_is_held_while_the_receiver_works(workspace, receiver):
    held = []

    class Session:
        def __enter__(self):
            held.append(True)
            return workspace.conn

        def __exit__(self, *_):
            held.pop()

    class WatchingCaller:
        def send(self, call, *, deadline_seconds):
            assert held == []
            return workspace.services.http.send(call, deadline_seconds=deadline_seconds)

    services = replace(workspace.services, http=WatchingCaller())
    context = replace(workspace.context(services=services), connect=Session)

    assert execute(a_webhook(receiver), context) == {"status": 200}


def test_what_grows_too_long_fails_for_good(workspace, receiver):
    context = workspace.context(snapshot={**SNAPSHOT, "c1": "x" * 10_000})

    failure = failure_of(a_webhook(receiver, payload=["$row.案件名稱"] * 30), context)

    assert not failure.transient
    assert failure.detail == "the rendered action has more than 262144 characters"
    assert receiver.requests == []


def test_the_code_of_the_documentation_verifies(workspace, receiver):
    page = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    documented = {}
    exec(code, documented)

    execute(a_webhook(receiver), workspace.context())

    [request] = receiver.requests
    is_authentic = documented["is_authentic"]
    key, other = (f"whsec_{b64encode(secret).decode()}" for secret in (SECRET, b"x" * 32))
    assert is_authentic(key, request.headers, request.body)
    assert not is_authentic(key, request.headers, request.body + b" ")
    assert not is_authentic(other, request.headers, request.body)
