"""The OpenAPI 3.1 document, made of the routes and their schemas without server or database."""

import json
import re
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema

from services.api.auth import Scope
from services.api.bodies import JSON
from services.api.fields import MAX_ID
from services.api.mounts import MOUNTS, Mount
from services.api.parameters import (
    CHATROOM_HEADER,
    CHATROOM_PATTERN,
    ETAG_PATTERN,
    KEY_PATTERN,
)
from services.api.problems import MEDIA_TYPE
from services.api.routes import Route
from services.api.schemas import ProblemSchema
from services.api.tags import TAGS
from services.api.trigger_schemas import TRIGGER_COMPONENTS, union
from services.api.workflow_schemas import WORKFLOW_COMPONENTS
from shared.actions.registry import ACTIONS
from shared.domain.secrets import NAME_PATTERN

_DESCRIPTION = (
    "Tables whose rows fire schedule and event triggers; events, rules and workflows, whose actions"
    " may wait for their time or for a click. Errors are problem documents (RFC 9457);"
    " lists are paged by the cursor that the page before gave; a POST that creates takes an"
    " Idempotency-Key; definitions carry an ETag and their writes take If-Match."
)
_API_VERSION = version("duebook")
_PATH_PART = re.compile(r"<(uuid|id|trigger|secret):([a-z_]+)>")
_PATH_SCHEMAS: dict[str, dict[str, Any]] = {
    "uuid": {"type": "string", "format": "uuid"},
    "id": {"type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_ID},
    "trigger": {"type": "string", "pattern": "^trg_[0-9a-f]{12}$"},
    "secret": {"type": "string", "pattern": f"^{NAME_PATTERN}$"},
}
_SECURITY: dict[Scope, list[dict[str, list[str]]]] = {
    "root": [{"adminToken": []}],
    "tenant": [{"apiToken": []}],
    "channel": [{"apiToken": []}],
    "v1": [{"apiToken": []}, {"adminToken": []}],
}
_SECURITY_SCHEMES: dict[str, dict[str, str]] = {
    "apiToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token of a tenant or a channel, `dbk_…`, with a role.",
    },
    "adminToken": {
        "type": "apiKey",
        "in": "header",
        "name": "X-ADMIN-TOKEN",
        "description": "The operator's token: a moderator in every tenant that `tenant` names.",
    },
}
_HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {"description": "The revision, for If-Match.", "schema": {"type": "string"}},
    "Location": {"description": "The link's target.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {"description": "Bearer.", "schema": {"type": "string"}},
}
_PROBLEM_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
_PROBLEM_TEXTS = {
    400: "Not valid; `errors` tells each fault with a JSON pointer.",
    401: "No API token, or one that is not known.",
    403: "Another tenant or channel, a missing role, a wrong X-ADMIN-TOKEN.",
    404: "Absent or trashed.",
    409: "The state does not allow it, a limit is reached, or the Idempotency-Key is another's.",
    411: "A body without Content-Length.",
    412: "If-Match names a revision that is not the present one.",
    413: "The body is larger than is taken; nothing of it was read.",
    415: "The body is of another kind.",
    429: "Too many requests of the tenant, refused tokens of the address, or long questions.",
    503: "The database is busy or away.",
}
_PROBLEM_CODES = {
    400: "field_missing",
    401: "unauthenticated",
    403: "role_missing",
    404: "table_not_found",
    409: "idempotency_key_reused",
    411: "length_required",
    412: "stale_version",
    413: "body_too_large",
    415: "media_type_unsupported",
    429: "tenant_rate_exceeded",
    503: "database_unavailable",
}


@cache
def document_text() -> str:
    """Return the document of the whole API as JSON text.

    It is made when it is first asked for: that takes longer than all that a start does beside it.
    """
    return json.dumps(build_document(), ensure_ascii=False)


def build_document() -> dict[str, Any]:
    """Return the document of the whole API as a JSON object."""
    marshmallow = MarshmallowPlugin()
    spec = APISpec(
        title="Duebook",
        version=_API_VERSION,
        openapi_version="3.1.0",
        info={"description": _DESCRIPTION},
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        servers=[{"url": "/"}],
        plugins=[marshmallow],
    )
    for name, scheme in _SECURITY_SCHEMES.items():
        spec.components.security_scheme(name, scheme)
    _describe_triggers(spec)
    for status in _PROBLEM_TEXTS:
        spec.components.response(f"Problem{status}", _problem(status))
    for mount in MOUNTS:
        for route in mount.routes:
            spec.path(
                path=document_path(mount, route),
                operations={route.method.lower(): _operation(mount, route, marshmallow)},
            )
    for path, operation in (_FOLLOW | _REFERENCE).items():
        spec.path(path=path, operations={"get": operation})
    return dict(spec.to_dict())


def _describe_triggers(spec: APISpec) -> None:
    names = {}
    for kind, action in ACTIONS.items():
        names[kind] = action.schema.__name__.removesuffix("Schema")
        spec.components.schema(names[kind], schema=action.schema)
    for name, component in (TRIGGER_COMPONENTS | WORKFLOW_COMPONENTS).items():
        spec.components.schema(name, component)
    spec.components.schema("Action", union("type", names))


def document_path(mount: Mount, route: Route) -> str:
    """Return the address of a route as the document writes it."""
    return mount.prefix + _PATH_PART.sub(r"{\2}", route.path)


def _operation(mount: Mount, route: Route, marshmallow: MarshmallowPlugin) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": mount.operation_id(route),
        "summary": route.summary,
        "description": f"Roles: {', '.join(sorted(route.roles))}.",
        "tags": [route.operation_id.split(".")[0]],
        "security": _SECURITY[mount.scope],
        "parameters": list(_parameters(mount, route, marshmallow)),
        "responses": _responses(mount, route),
    }
    if route.body is not None:
        content = {JSON: {"schema": route.body}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    if route.upload is not None:
        texts = {media: {"schema": {"type": "string"}} for media in route.media}
        operation["requestBody"] = {"required": True, "content": texts}
    return operation


def _parameters(
    mount: Mount, route: Route, marshmallow: MarshmallowPlugin
) -> Iterator[dict[str, Any]]:
    for converter, name in _PATH_PART.findall(route.path):
        schema = _PATH_SCHEMAS[converter]
        yield {"in": "path", "name": name, "required": True, "schema": schema}
    assert marshmallow.converter is not None
    for parameter in marshmallow.converter.schema2parameters(route.query(), location="query"):
        if parameter["name"] != "tenant" or mount.scope in ("root", "v1"):
            yield parameter
    if route.creates:
        yield _header("Idempotency-Key", "The same key answers the same, for a day.", KEY_PATTERN)
    if route.acts is not None and mount.scope == "channel":
        about = "The acting chatroom, where the table has rules for chatrooms."
        yield _header(CHATROOM_HEADER, about, CHATROOM_PATTERN)
    if route.versioned:
        yield _header("If-Match", "The ETag that the change is made to.", ETAG_PATTERN)


def _header(name: str, description: str, pattern: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": f"^(?:{pattern})$"}
    return {"in": "header", "name": name, "description": description, "schema": schema}


def _responses(mount: Mount, route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): _success(route, status, schema) for status, schema in route.answers.items()
    }
    for status in _problem_statuses(mount, route):
        responses[str(status)] = f"Problem{status}"
    return responses


def _success(route: Route, status: int, schema: type[Schema] | None) -> dict[str, Any]:
    response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if route.produces != JSON:
        response["content"] = {route.produces: {"schema": {"type": "string"}}}
    if schema is not None:
        response["content"] = {JSON: {"schema": schema}}
        if not route.untagged and {"revision", "version"} & {*schema().fields}:
            response["headers"] = {"ETag": _HEADERS["ETag"]}
    return response


def _problem_statuses(mount: Mount, route: Route) -> Iterator[int]:
    yield 400
    if mount.scope != "root":
        yield 401
    yield 403
    if "<" in route.path or "tenant" in route.query().fields:
        yield 404
    if route.conflicts or route.creates:
        yield 409
    yield 411
    if route.versioned:
        yield 412
    yield 413
    if route.body is not None or route.upload is not None:
        yield 415
    yield 429
    yield 503


def _problem(status: int) -> dict[str, Any]:
    example = {
        "type": f"urn:duebook:problem:{_PROBLEM_CODES[status]}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": "what is wrong, in words",
    }
    response: dict[str, Any] = {
        "description": _PROBLEM_TEXTS[status],
        "content": {MEDIA_TYPE: {"schema": ProblemSchema, "example": example}},
    }
    if header := _PROBLEM_HEADERS.get(status):
        response["headers"] = {header: _HEADERS[header]}
    return response


_FOLLOW: dict[str, dict[str, Any]] = {
    "/t/{token}": {
        "operationId": "trackingLinks.follow",
        "summary": "Follow a tracking link; prefetches and previews of links do not count",
        "tags": ["trackingLinks"],
        "security": [],
        "parameters": [
            {"in": "path", "name": "token", "required": True, "schema": {"type": "string"}}
        ],
        "responses": {
            "302": {
                "description": HTTPStatus(302).phrase,
                "headers": {"Location": _HEADERS["Location"]},
            },
            "404": "Problem404",
            "503": "Problem503",
        },
    }
}


def _page(operation_id: str, summary: str, media: str) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "summary": summary,
        "tags": ["reference"],
        "security": [],
        "responses": {"200": {"description": "OK", "content": {media: {"schema": {}}}}},
    }


_REFERENCE: dict[str, dict[str, Any]] = {
    "/openapi.json": _page("reference.document", "This document", JSON),
    "/docs": _page("reference.page", "The page that shows this document", "text/html"),
}
