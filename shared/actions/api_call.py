"""api_call: any HTTP call."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import ClassVar
from urllib.parse import urlencode

from marshmallow import ValidationError

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.calls import json_bytes, rendered_headers, rendered_url, send
from shared.actions.failures import ActionFailed
from shared.actions.http import check_answer
from shared.actions.schemas import (
    ExternalActionSchema,
    anything,
    choice,
    either,
    headers,
    kind,
    mapping,
    url,
)
from shared.actions.secrets import secret_faults
from shared.actions.urls import MAX_URL, Url
from shared.domain.faults import MAX_TOLD, child, cut
from shared.domain.strict_json import Json
from shared.domain.templates import text_of
from shared.errors import Fault

MAX_EXPECTED = 50

_STATUS: dict[str, Json] = {"type": "integer", "minimum": 200, "maximum": 599}
_WITHOUT_BODY = ("GET", "HEAD")


def _are_statuses(value: object) -> None:
    statuses = value if isinstance(value, list) else [value]
    if not 1 <= len(statuses) <= MAX_EXPECTED or not all(map(_is_status, statuses)):
        raise ValidationError("must be a status from 200 to 599, or a list of them")


def _is_status(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599


class ApiCallSchema(ExternalActionSchema):
    """A text as ``body`` is sent as it is, any other value as JSON."""

    type = kind("api_call")
    method = choice("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    url = url()
    headers = headers()
    query = mapping()
    body = anything()
    expect_status = either(
        _STATUS,
        {"type": "array", "items": _STATUS, "minItems": 1, "maxItems": MAX_EXPECTED},
        validate=_are_statuses,
    )


class ApiCall:
    """Calls a URL as the author says."""

    type: ClassVar[str] = "api_call"
    schema: ClassVar[SchemaClass] = ApiCallSchema
    templated: ClassVar[tuple[str, ...]] = ("url", "headers", "query", "body")

    def effect(self, services: Services) -> Effect:
        """Return external."""
        return "external"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse bodies of methods that have none, odd query values, and secrets that are none."""
        query = config.get("query", {})
        wrong = (name for name, value in query.items() if not _is_query_value(value))
        faults = [
            _fault(child("/query", name), f"api_call query.{cut(name)} must be a value or a list")
            for name in islice(wrong, MAX_TOLD)
        ]
        if "body" in config and config["method"] in _WITHOUT_BODY:
            faults.append(_fault("/body", f"api_call body cannot be sent with {config['method']}"))
        return [*faults, *secret_faults(config, context)]

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Send the request; success is ``expect_status``, else any 2xx."""
        headers = rendered_headers(config.get("headers", {}), context)
        content_type, body = _body(config, context)
        texts = headers.texts
        if content_type and not any(name.lower() == "content-type" for name in texts):
            texts = {**texts, "Content-Type": content_type}
        answer = send(
            context,
            method=config["method"],
            url=_with_query(rendered_url(config["url"], context), config.get("query", {}), context),
            headers=texts,
            body=body,
            secrets=headers.secrets,
        )
        expected = config.get("expect_status")
        check_answer(
            answer,
            now=context.now,
            expected=tuple(expected) if isinstance(expected, list) else expected and (expected,),
        )
        return {"status": answer.status}


def _is_query_value(value: Json) -> bool:
    values = value if isinstance(value, list) else [value]
    return not any(isinstance(each, dict | list) for each in values)


def _body(config: Config, context: ActionContext) -> tuple[str | None, bytes | None]:
    if "body" not in config:
        return None, None
    body = context.render(config["body"])
    if isinstance(body, str):
        return "text/plain; charset=utf-8", body.encode()
    return "application/json", json_bytes(body)


def _with_query(url: Url, query: Mapping[str, Json], context: ActionContext) -> Url:
    if not query:
        return url
    rendered = context.render(dict(query))
    assert isinstance(rendered, dict)
    added = urlencode(
        [
            (name, text_of(each))
            for name, value in rendered.items()
            for each in (value if isinstance(value, list) else [value])
        ]
    )
    target = f"{url.target}{'&' if '?' in url.target else '?'}{added}"
    if len(target) > MAX_URL:
        raise ActionFailed(f"the URL with its query has more than {MAX_URL} characters")
    return replace(url, target=target)


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="action_invalid", pointer=pointer, message=message)
