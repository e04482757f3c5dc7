from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from shared.actions.signatures import signed_headers

OLD, NEW, FOREIGN = b"o" * 24, b"n" * 32, b"f" * 64
BODY = '{"type":"trigger.fired","data":{"名":"案件"}}'.encode()


def verify(secret, headers, *, body=BODY):
    return Webhook("whsec_" + b64encode(secret).decode()).verify(body, headers)


@pytest.fixture
def now():
    # The other side compares the timestamp with the clock of the machine.
    return datetime.now(UTC)


def test_a_receiver_verifies_the_signature(now):
    headers = signed_headers([NEW], message_id="abc", now=now, body=BODY)

    assert verify(NEW, headers)["type"] == "trigger.fired"


def test_while_keys_rotate_a_receiver_may_know_either(now):
    headers = signed_headers([NEW, OLD], message_id="abc", now=now, body=BODY)

    assert verify(NEW, headers)
    assert verify(OLD, headers)
    with pytest.raises(WebhookVerificationError):
        verify(FOREIGN, headers)


def test_another_body_id_or_time_does_not_verify(now):
    headers = signed_headers([NEW], message_id="abc", now=now, body=BODY)
    later = str(int((now + timedelta(seconds=1)).timestamp()))

    for changed in ({"webhook-id": "abd"}, {"webhook-timestamp": later}):
        with pytest.raises(WebhookVerificationError):
            verify(NEW, {**headers, **changed})
    with pytest.raises(WebhookVerificationError):
        verify(NEW, headers, body=BODY + b" ")


def test_the_id_stays_and_the_timestamp_moves(now):
    first = signed_headers([NEW], message_id="abc", now=now, body=BODY)
    second = signed_headers([NEW], message_id="abc", now=now + timedelta(minutes=1), body=BODY)

    assert first["webhook-id"] == second["webhook-id"] == "abc"
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 60
    assert first["webhook-signature"] != second["webhook-signature"]
