"""Every error of a request as a problem document (RFC 9457); the only place that knows statuses."""

import json
from http import HTTPStatus

import psycopg
from flask import Response
from werkzeug.exceptions import HTTPException

from shared.domain.faults import MAX_POINTER, MAX_TOLD, cut
from shared.errors import (
    AppError,
    Conflict,
    Fault,
    Forbidden,
    InvalidInput,
    NotFound,
    StaleVersion,
    Unauthenticated,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"

# The messages of the contract quote what was sent, which may be as long as a body.
_MAX_DETAIL = 2000

# How long a client should wait when the database is busy or away.
_RETRY_AFTER_SECONDS = 1


class LengthRequired(AppError):
    """A body without Content-Length: it cannot be told whole from cut off."""

    code = "length_required"


class TooLarge(AppError):
    """A body over the limit; nothing of it was read."""

    code = "body_too_large"


class RateExceeded(AppError):
    """More requests than are taken; the next one is, after ``retry_after_seconds``."""

    def __init__(self, message: str, *, code: str, retry_after_seconds: int) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class UnsupportedMedia(AppError):
    """A body of a media type or an encoding that the route does not take."""

    code = "media_type_unsupported"


_STATUSES: tuple[tuple[type[AppError], int], ...] = (
    (InvalidInput, 400),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (LengthRequired, 411),
    (StaleVersion, 412),
    (TooLarge, 413),
    (UnsupportedMedia, 415),
    (RateExceeded, 429),
    (Unavailable, 503),
)


def respond_to(error: Exception) -> Response:
    """Return the problem document of any exception; what nobody foresaw is a 500."""
    match error:
        case AppError():
            return _of_app_error(error)
        case HTTPException():
            return _of_http_exception(error)
        case psycopg.OperationalError():
            # Lock and statement limits, no session to be had, a lost or refused connection.
            return _of_app_error(
                Unavailable(
                    "the database is busy or away, try again",
                    code="database_unavailable",
                    retry_after_seconds=_RETRY_AFTER_SECONDS,
                )
            )
        case _:
            return _response(500, code="internal_error", detail="an unexpected error, it is logged")


def is_unforeseen(error: Exception) -> bool:
    """Tell whether an exception is a bug that a person should look at."""
    return not isinstance(error, AppError | HTTPException | psycopg.OperationalError)


def status_of(error: AppError) -> int:
    """Return the HTTP status of an error class; 400 for one that is not in the list."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)


def _of_app_error(error: AppError) -> Response:
    status = status_of(error)
    faults = error.faults if isinstance(error, InvalidInput) else ()
    response = _response(status, code=error.code, detail=error.message, faults=faults)
    if isinstance(error, Unavailable | RateExceeded):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, Unauthenticated):
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _of_http_exception(error: HTTPException) -> Response:
    status = error.code or 500
    code = HTTPStatus(status).phrase.lower().replace(" ", "_").replace("-", "_")
    detail = {404: "there is nothing at this address"}.get(status, HTTPStatus(status).phrase)
    response = _response(status, code=code, detail=detail)
    for name, value in error.get_headers():
        if name in ("Allow", "Retry-After"):
            response.headers[name] = value
    return response


def _response(status: int, *, code: str, detail: str, faults: tuple[Fault, ...] = ()) -> Response:
    document: dict[str, object] = {
        "type": f"urn:duebook:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": cut(detail, _MAX_DETAIL),
    }
    if faults:
        document["errors"] = [
            {
                "pointer": cut(fault.pointer, MAX_POINTER),
                "code": fault.code,
                "detail": cut(fault.message, _MAX_DETAIL),
            }
            for fault in faults[:MAX_TOLD]
        ]
    # Whatever a message quotes, it must not keep the problem from being told.
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status=status, content_type=MEDIA_TYPE)
