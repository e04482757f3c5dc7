"""From a request to the answer of its route, in a fixed order.

Who calls, how much is sent and of which kind, is it whole, may they, is it valid; the handler.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

import psycopg
import structlog
from flask import Response, g, request
from psycopg import Connection

from services.api import bodies, idempotency
from services.api.auth import Caller, Credentials, Scope, check_role, identify, read_credentials
from services.api.cursors import Cursors
from services.api.dependencies import Parts, Sessions
from services.api.fields import load, made
from services.api.parameters import (
    CHATROOM_HEADER,
    read_acting_chatroom,
    read_idempotency_key,
    read_if_match,
    read_query,
)
from services.api.request_limits import Visit
from services.api.routes import Answer, Call, Route, Upload
from shared.db.clock import server_now
from shared.db.tenant_session import TenantSession
from shared.domain import strict_json
from shared.domain.faults import in_document_order
from shared.errors import Fault, InvalidInput
from shared.observability.host_clock import compare

_log = structlog.get_logger()

# Sorting more faults than anybody reads costs more than finding them.
_MAX_ORDERED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What is known of a request before its body is read."""

    visit: Visit
    credentials: Credentials
    length: int
    media: str | None
    query: Mapping[str, Any]
    revision: int | None
    key: str | None
    chatroom_id: UUID | None


def serve(route: Route, *, parts: Parts, scope: Scope, ids: Mapping[str, Any]) -> Response:
    """Answer the present request by ``route``; errors are raised for ``problems`` to tell."""
    with parts.limits.visit(request.environ, by_admin_token=scope == "root") as visit:
        return _serve(route, visit, parts=parts, scope=scope, ids=ids)


def _serve(
    route: Route, visit: Visit, *, parts: Parts, scope: Scope, ids: Mapping[str, Any]
) -> Response:
    head = _read_head(route, visit, parts=parts, scope=scope)
    if route.upload is not None:
        return _serve_upload(route, head, parts=parts, scope=scope, ids=ids)
    # Read before a session is taken: a slow client holds a thread, never a session.
    raw = b"".join(bodies.read_pieces(request.environ, length=head.length))
    with _session(route, head, parts, scope) as (conn, caller):
        body, refusal = _read_body(route, raw)
        call = Call(
            conn=conn,
            now=compare(lambda: server_now(conn)),
            caller=caller,
            scope=scope,
            acts=route.acts,
            ids=ids,
            query=head.query,
            body=body,
            revision=head.revision,
            clicks=parts.clicks,
            public_url=parts.public_url,
            waiting=parts.waiting,
            sealer=parts.sealer,
            questions=parts.questions,
            **_page(parts, head, caller),
        )
        return _respond(route, call, head.key, raw, refusal)


def _read_head(route: Route, visit: Visit, *, parts: Parts, scope: Scope) -> _Head:
    environ = request.environ
    headers = request.headers
    credentials = read_credentials(headers, scope=scope, admin_token=parts.admin_token)
    limit = parts.max_bulk_bytes if route.upload else parts.max_body_bytes
    length = bodies.body_length(environ, limit=limit)
    takes_body = route.body is not None or route.upload is not None
    has_body = takes_body and not (route.body_optional and not length)
    if has_body and not length:
        raise InvalidInput("the body is missing", code="body_missing")
    query = load(route.query, read_query(environ.get("QUERY_STRING", "")))
    if "tenant" in query and scope in ("tenant", "channel"):
        message = "tenant may be named in the root scope alone"
        raise InvalidInput.of([Fault(code="field_unknown", pointer="/tenant", message=message)])
    return _Head(
        visit=visit,
        credentials=credentials,
        length=length,
        media=bodies.media_type(environ, allowed=route.media) if has_body else None,
        query=query,
        revision=read_if_match(headers.get("If-Match")) if route.versioned else None,
        key=read_idempotency_key(headers.get("Idempotency-Key")) if route.creates else None,
        chatroom_id=(
            read_acting_chatroom(headers.get(CHATROOM_HEADER))
            if route.acts is not None and scope == "channel"
            else None
        ),
    )


@contextmanager
def _session(
    route: Route, head: _Head, parts: Parts, scope: Scope
) -> Iterator[tuple[TenantSession, Caller]]:
    """Yield who calls, and the session that they are served by, which sees what is theirs."""
    with parts.sessions() as conn:
        caller = _identify(conn, route, head, scope)
        if not route.across_tenants or caller.tenant_id is not None:
            conn.bind(caller.tenant_id)
            yield conn, caller
            return
    with parts.operator_sessions() as conn:
        yield conn, caller


def _identify(conn: Connection, route: Route, head: _Head, scope: Scope) -> Caller:
    tenant_id: UUID | None = head.query.get("tenant")
    caller = identify(conn, head.credentials, scope=scope, tenant_id=tenant_id)
    g.tenant_id = caller.tenant_id  # for the log
    head.visit.identified(None if head.credentials.is_admin else caller.tenant_id)
    check_role(caller, route.roles)
    return replace(caller, chatroom_id=head.chatroom_id)


def _read_body(route: Route, raw: bytes) -> tuple[Mapping[str, Any], InvalidInput | None]:
    """Return the body as its schema loads it, and the refusal of a number in it that is too large.

    Whoever the number is meant for says in his own words that it is out of range; only what would
    be taken is refused by this.
    """
    if route.body is None:
        # Many clients send an empty object with every POST.
        if raw.strip() not in (b"", b"{}"):
            raise InvalidInput("this route takes no body", code="body_not_expected")
        return {}, None
    try:
        return load(route.body, strict_json.loads(raw or b"{}")), None
    except InvalidInput as error:
        if error.code != "json_number_invalid":
            raise
        return load(route.body, strict_json.loads(raw, large_numbers=True)), error


def _page(parts: Parts, head: _Head, caller: Caller) -> dict[str, Any]:
    """Return the cursors of this list, and the position at which the page begins."""
    filters = {name: head.query[name] for name in sorted({*head.query} - {"cursor", "limit"})}
    context = json.dumps([request.path, str(caller.tenant_id), filters], default=str)
    cursors = Cursors(key=parts.cursor_key, context=context.encode())
    cursor = head.query.get("cursor")
    return {"cursors": cursors, "position": None if cursor is None else cursors.open(cursor)}


def _serve_upload(
    route: Route, head: _Head, *, parts: Parts, scope: Scope, ids: Mapping[str, Any]
) -> Response:
    assert route.upload is not None
    assert head.media is not None
    with parts.sessions() as conn:
        caller = _identify(conn, route, head, scope)
    upload = Upload(
        sessions=partial(_bound, parts.sessions, caller.tenant_id),
        caller=caller,
        scope=scope,
        acts=route.acts,
        ids=ids,
        query=head.query,
        questions=parts.questions,
        media=head.media,
        pieces=bodies.read_pieces(request.environ, length=head.length),
        key=head.key,
    )
    return render(route, route.upload(upload))


@contextmanager
def _bound(sessions: Sessions, tenant_id: UUID | None) -> Iterator[TenantSession]:
    with sessions() as conn:
        conn.bind(tenant_id)
        yield conn


def _respond(
    route: Route, call: Call, key: str | None, raw: bytes, refusal: InvalidInput | None
) -> Response:
    assert route.handler is not None
    try:
        if route.own_transactions:
            answer = route.handler(call)
            if refusal is not None:
                raise refusal
            return render(route, answer)
        with call.conn.transaction():
            response = _respond_once(route, call, key, raw)
            if refusal is not None:
                raise refusal
        _follow_up(call)
        return response
    except InvalidInput as error:
        if route.body is None or not 1 < len(error.faults) <= _MAX_ORDERED:
            raise
        document = strict_json.loads(raw, large_numbers=True)
        raise InvalidInput.of(in_document_order(document, error.faults)) from error


def _follow_up(call: Call) -> None:
    """Do what is left once the effect is committed: its failure is no failure of the request."""
    for step in call.after_commit:
        try:
            step()
        except psycopg.OperationalError as error:
            _log.warning("follow_up_failed", reason=type(error).__name__)


def _respond_once(route: Route, call: Call, key: str | None, raw: bytes) -> Response:
    assert route.handler is not None
    if key is None:
        return render(route, route.handler(call))
    query = request.query_string.decode("latin-1")
    # A token of another channel, or another chatroom, might not get the answer if it asked.
    asked = json.dumps([request.method, request.path, query, *_acting(call.caller)])
    request_hash = sha256(asked.encode() + b"\n" + raw).digest()
    given = idempotency.begin(call, key=key, request_hash=request_hash)
    if given is not None:
        return given
    answer = route.handler(call)
    idempotency.keep(
        call, key=key, request_hash=request_hash, answer=_without_secrets(route, answer)
    )
    return render(route, answer)


def render(route: Route, answer: Answer) -> Response:
    """Return the response of an answer: dumped by the schema of its status, with its ETag."""
    if route.produces != bodies.JSON:
        return Response(str(answer.body), status=answer.status, content_type=route.produces)
    document = _dump(route, answer)
    text = "" if document is None else json.dumps(document, ensure_ascii=False)
    response = Response(text, status=answer.status, content_type=bodies.JSON)
    if document is None:
        del response.headers["Content-Type"]
    if answer.revision is not None:
        response.headers["ETag"] = f'"{answer.revision}"'
    return response


def _dump(route: Route, answer: Answer) -> strict_json.Json:
    schema = route.answers[answer.status]
    return None if schema is None else made(schema).dump(answer.body)


def _acting(caller: Caller) -> list[str]:
    """Return for whom a call acts: an answer is given again to none but them."""
    chatroom = [] if caller.chatroom_id is None else [str(caller.chatroom_id)]
    return [str(caller.channel_id), *chatroom]


def _without_secrets(route: Route, answer: Answer) -> Response:
    response = render(route, answer)
    if answer.secrets:
        document = {**_dump(route, answer), **dict.fromkeys(answer.secrets)}
        response.set_data(json.dumps(document, ensure_ascii=False))
    return response
