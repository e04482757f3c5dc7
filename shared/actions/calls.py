"""The calls of external actions: rendered settings to a request, sent under the action's key."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from urllib.parse import quote

from shared.actions.action import ActionContext
from shared.actions.failures import ActionFailed
from shared.actions.headers import header_faults
from shared.actions.http import Answer, Call
from shared.actions.secrets import read_secrets
from shared.actions.signatures import signed_headers
from shared.actions.urls import Url, parse_url
from shared.domain.secrets import secrets_named
from shared.domain.strict_json import Json
from shared.domain.templates import TemplateContext, text_of, tokens_in

MAX_BODY_BYTES = 1024 * 1024
JSON_TYPE = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """What an author adds to a call; ``secrets`` are the values in it that nobody may be told."""

    texts: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def send(
    context: ActionContext,
    *,
    method: str,
    url: Url,
    headers: Mapping[str, str],
    body: bytes | None,
    secrets: Collection[str] = (),
    trusted: bool = False,
) -> Answer:
    """Send a request that carries the idempotency key and the delivery number of the action.

    A receiver may quote what it was sent: ``secrets`` are blotted out of its answer.
    """
    if body is not None and len(body) > MAX_BODY_BYTES:
        raise ActionFailed(f"the body has more than {MAX_BODY_BYTES} bytes")
    ours = {
        "Idempotency-Key": context.idempotency_key,
        "Duebook-Delivery": str(context.starts),
    }
    call = Call(method=method, url=url, headers={**headers, **ours}, body=body, trusted=trusted)
    answer = context.services.http.send(call, deadline_seconds=context.services.deadline_seconds)
    return replace(answer, body=_blotted(answer.body, secrets)) if secrets else answer


def _blotted(body: bytes, secrets: Collection[str]) -> bytes:
    spelled = {spelling for secret in secrets for spelling in _spellings(secret)}
    for spelling in sorted(spelled, key=len, reverse=True):  # one may stand in another
        body = body.replace(spelling.encode(), b"***")
    return body


def _spellings(secret: str) -> Iterator[str]:
    """Give how an answer quotes a secret: as it is, and as JSON, an address or HTML has it."""
    yield secret
    in_json = json.dumps(secret)[1:-1]
    yield in_json
    yield in_json.replace("/", "\\/")
    yield quote(secret)
    yield quote(secret, safe="")
    yield escape(secret)


def send_signed(context: ActionContext, *, url: Url, headers: Headers, content: Json) -> Answer:
    """POST ``content`` as JSON, signed with the tenant's keys."""
    secrets = context.services.signing_keys.of(
        context.tenant_id, connect=context.connect, now=context.now
    )
    if not secrets:
        raise ActionFailed("the tenant has no signing key")
    body = json_bytes(content)
    signature = signed_headers(
        secrets, message_id=context.idempotency_key, now=context.now, body=body
    )
    return send(
        context,
        method="POST",
        url=url,
        headers={**headers.texts, **JSON_TYPE, **signature},
        body=body,
        secrets=headers.secrets,
    )


def json_bytes(content: Json) -> bytes:
    """Return compact JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def rendered_url(text: str, context: ActionContext) -> Url:
    """Return the URL with its tokens replaced. Raises ActionFailed when it cannot be called.

    Inside a longer text a value is a part of the URL and percent-encoded; one that is the whole URL
    is taken as it is.
    """
    tokens = list(tokens_in(text, on_events=context.template.on_events))
    whole = [token.end - token.start for token in tokens] == [len(text)]
    template = context.template if whole else _encoded(context.template)
    url = readable_url(text_of(context.render(text, template=template)))
    return replace(url, template=text) if tokens else url


def _encoded(template: TemplateContext) -> TemplateContext:
    return replace(
        template,
        row=_encoded_values(template.row),
        event=_encoded_values(template.event),
        line_user=_encoded_values(template.line_user),
        links=_encoded_values(template.links),
        trigger_name=quote(template.trigger_name, safe=""),
    )


def _encoded_values(values: Mapping[str, Json] | None) -> dict[str, str] | None:
    if values is None:
        return None
    return {name: quote(text_of(value), safe="") for name, value in values.items()}


def readable_url(text: str) -> Url:
    """Return the URL. Raises ActionFailed when it cannot be called."""
    try:
        return parse_url(text)
    except ValueError as error:
        raise ActionFailed(f"the URL cannot be called: {error}") from error


def rendered_headers(headers: Mapping[str, Json], context: ActionContext) -> Headers:
    """Return the headers as they are sent: tokens replaced, secrets in the place of their names.

    Raises ActionFailed for one that it cannot send. What a token stands for names no secret: only
    the author does.
    """
    authored = {name: _authored_text(value) for name, value in headers.items()}
    rendered = context.render(authored)
    assert isinstance(rendered, dict)
    texts = {name: text_of(value) for name, value in rendered.items()}
    named = dict(secrets_named(headers))
    values = read_secrets(named, context) if named else {}
    texts |= {name: texts[name] + values[named[name]] for name in named}
    for name, reason in header_faults(texts):
        raise ActionFailed(f"header '{name}' {reason}")
    return Headers(texts=texts, secrets=tuple(values.values()))


def _authored_text(value: Json) -> Json:
    """Return what an author wrote of a header; of one that names a secret, what goes before it."""
    return value.get("prefix", "") if isinstance(value, dict) else value
