"""The application: every route of every mount, one way for errors, one for headers."""

from collections.abc import Callable
from uuid import UUID

import psycopg
import structlog
from flask import Blueprint, Flask, Response, g, request
from werkzeug.routing import BaseConverter, ValidationError

from services.api.auth import Scope
from services.api.clicks import clicks_blueprint
from services.api.dependencies import Parts
from services.api.fields import MAX_ID
from services.api.mounts import MOUNTS
from services.api.problems import is_unforeseen, respond_to
from services.api.reference import reference_blueprint
from services.api.routes import Route
from services.api.serving import serve
from services.api.traces import begin_request, end_request, tell_answer
from shared.domain.secrets import NAME_PATTERN
from shared.lifecycle import monotonic
from shared.observability.metrics import REQUEST_SECONDS

_log = structlog.get_logger()


class _Id(BaseConverter):
    """The id of a record or a run: decimal digits, within 64 bits."""

    regex = "[1-9][0-9]{0,18}"

    def to_python(self, value: str) -> int:
        if int(value) > MAX_ID:
            raise ValidationError
        return int(value)


class _SecretName(BaseConverter):
    """The name of a secret."""

    regex = NAME_PATTERN


class _TriggerId(BaseConverter):
    """The id of a trigger."""

    regex = "trg_[0-9a-f]{12}"


def create_app(parts: Parts) -> Flask:
    """Return the WSGI application over its parts."""
    app = Flask(__name__, static_folder=None)
    app.url_map.converters["id"] = _Id
    app.url_map.converters["trigger"] = _TriggerId
    app.url_map.converters["secret"] = _SecretName
    # An address is what was asked for: no redirects to a likely one, no OPTIONS of Flask's own.
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    for mount in MOUNTS:
        blueprint = Blueprint(mount.name, __name__)
        for route in mount.routes:
            blueprint.add_url_rule(
                route.path,
                endpoint=route.operation_id.replace(".", "_"),
                view_func=_view(route, parts=parts, scope=mount.scope),
                methods=[route.method],
            )
        app.register_blueprint(blueprint, url_prefix=mount.prefix)
    app.register_blueprint(clicks_blueprint(parts))
    app.register_blueprint(reference_blueprint())
    app.register_error_handler(Exception, _on_error)
    app.before_request(_begin)
    app.after_request(_finish)
    app.teardown_request(lambda _error: end_request())
    return app


def _view(route: Route, *, parts: Parts, scope: Scope) -> Callable[..., Response]:
    def view(**ids: UUID | int) -> Response:
        return serve(route, parts=parts, scope=scope, ids=ids)

    return view


def _on_error(error: Exception) -> Response:
    if is_unforeseen(error):
        _log.error("request_failed", exc_info=error, **_address())
    elif isinstance(error, psycopg.OperationalError):
        _log.warning("database_unavailable", reason=type(error).__name__, **_address())
    return respond_to(error)


def _address() -> dict[str, str]:
    """Return the route of the present request; what no route takes is not told by its text."""
    if request.url_rule is None:
        return {"method": "other", "route": "unknown"}
    return {"method": request.method, "route": request.url_rule.rule}


def _begin() -> None:
    g.began_at = monotonic()
    begin_request(**_address())


def _finish(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers.setdefault("Cache-Control", "no-store")
    seconds = monotonic() - g.began_at
    address = _address()
    REQUEST_SECONDS.labels(**address, status=str(response.status_code)).observe(seconds)
    # A link's token is as good as the click, and is told to nobody.
    ids = {name: str(id) for name, id in (request.view_args or {}).items() if name != "token"}
    tell_answer(response)
    if g.get("tenant_id") is not None:
        ids["tenant_id"] = str(g.tenant_id)
    _log.info(
        "request_answered", status=response.status_code, seconds=round(seconds, 4), **address, **ids
    )
    return response
