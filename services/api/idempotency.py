"""Idempotency-Key: the answer of a POST is kept with its effect, and given again for a day."""

from flask import Response

from services.api.bodies import JSON
from services.api.routes import Call
from shared.errors import Conflict
from shared.queries.idempotency import keep_answer, lock_key, take_key

_KEPT_HEADERS = ("ETag",)


def begin(call: Call, *, key: str, request_hash: bytes) -> Response | None:
    """Take the key for this request; return the answer that it got before, if it did.

    The caller's transaction holds the key until the effect is committed: a second request under
    it waits. Raises Conflict ``idempotency_key_reused`` when the key stood for another request.
    """
    tenant_id = call.caller.tenant_id
    if take_key(call.conn, tenant_id=tenant_id, key=key, request_hash=request_hash, now=call.now):
        return None
    known = lock_key(call.conn, tenant_id=tenant_id, key=key)
    if known is None or known.request_hash != request_hash or known.status is None:
        raise reused()
    response = Response(known.body, status=known.status, content_type=JSON)
    response.headers.update(known.headers)
    return response


def keep(call: Call, *, key: str, request_hash: bytes, answer: Response) -> None:
    """Keep the answer that a replay of the request is to get."""
    headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    # The handler of an admin's call has bound the session to the tenant whose table it named.
    call.conn.bind(call.caller.tenant_id)
    keep_answer(
        call.conn,
        tenant_id=call.caller.tenant_id,
        key=key,
        request_hash=request_hash,
        status=answer.status_code,
        headers=headers,
        body=answer.get_data(as_text=True),
    )


def reused() -> Conflict:
    """Return the refusal of a key that stands for another request."""
    return Conflict(
        "the Idempotency-Key was used for another request", code="idempotency_key_reused"
    )
