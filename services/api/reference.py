"""The API document and its page: served to everyone, from files of the product alone."""

from pathlib import Path

from flask import Blueprint, Response, redirect, send_from_directory
from werkzeug.wrappers import Response as BaseResponse

from services.api.openapi import document_text

_STATIC = Path(__file__).parent / "static"
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


def reference_blueprint() -> Blueprint:
    """Return the routes ``/openapi.json``, ``/docs`` and ``/docs/<file>``; ``/`` leads there."""
    blueprint = Blueprint("reference", __name__)

    def openapi() -> Response:
        return Response(document_text(), content_type="application/json")

    def page() -> Response:
        return _file("docs.html")

    def front() -> BaseResponse:
        return redirect("/docs")

    blueprint.add_url_rule("/", view_func=front)
    blueprint.add_url_rule("/openapi.json", view_func=openapi)
    blueprint.add_url_rule("/docs", view_func=page)
    blueprint.add_url_rule("/docs/<path:name>", view_func=_file, endpoint="file")
    return blueprint


def _file(name: str) -> Response:
    response = send_from_directory(_STATIC, name)
    response.headers["Content-Security-Policy"] = _PAGE_POLICY
    return response
