"""The API as a client meets it: addresses, problem documents, pages."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from shared.errors import AppError, Unavailable

_TIMEOUT = urllib3.Timeout(connect=5.0, read=120.0)
_BUSY = (429, 503)
# Said by what stands before an API that it does not reach.
_AWAY = (*_BUSY, 502, 504)
_TRIES = 6
_CONNECTS = 2
_PAGE = 100
_CONNECTION = re.compile(r"^HTTPS?Connection(Pool)?\(.*?\): ")


class Refused(AppError):
    """The API said no; ``code`` is its problem document's, ``status`` the HTTP status.

    ``errors`` are those of the document: ``{pointer, code, detail}`` for each fault.
    """

    def __init__(
        self, message: str, *, code: str, status: int, errors: Sequence[Mapping[str, str]] = ()
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.errors = errors


class Api:
    """The API at an address, called with the headers that say who we are."""

    def __init__(self, url: str, *, headers: Mapping[str, str]) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/json", **headers}
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
    ) -> dict[str, Any]:
        """Return the answer, {} when it has no body. Raises Refused, Unavailable."""
        data = None if body is None else json.dumps(body).encode()
        answer = self._send(
            method,
            path + _query(query or {}),
            body=data,
            headers={} if data is None else {"Content-Type": "application/json"},
            repeatable=method == "GET",
        )
        return self._object(answer)

    def text(self, path: str) -> bytes:
        """Return an answer that is no JSON. Raises as ``call`` does."""
        return self._send("GET", path, body=None, headers={}, repeatable=True)

    def send(
        self,
        path: str,
        body: bytes,
        *,
        media: str,
        query: Mapping[str, object] | None = None,
        repeatable: bool = False,
    ) -> dict[str, Any]:
        """POST a body that is no JSON and return the answer. Raises as ``call`` does."""
        return self._object(
            self._send(
                "POST",
                path + _query(query or {}),
                body=body,
                headers={"Content-Type": media},
                repeatable=repeatable,
            )
        )

    def upload(self, path: str, body: bytes, *, media: str, key: str) -> dict[str, Any]:
        """POST a body under an Idempotency-Key, again when it got no answer; return the answer."""
        headers = {"Content-Type": media, "Idempotency-Key": key}
        return self._object(self._send("POST", path, body=body, headers=headers, repeatable=True))

    def items(
        self, path: str, *, query: Mapping[str, object] | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page after page, at most ``limit``."""
        for page in self.pages(path, query=query, limit=limit):
            yield from page["items"]

    def pages(
        self, path: str, *, query: Mapping[str, object] | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the pages of a list, at most ``limit`` items in all."""
        cursor = None
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            page = self.call("GET", path, query={**(query or {}), "limit": size, "cursor": cursor})
            if not {"items", "next_cursor"} <= page.keys():
                raise self._not_the_api()
            yield page
            left = None if left is None else left - len(page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _object(self, data: bytes) -> dict[str, Any]:
        """Return the document of an answer that is good, {} for no body."""
        document = _document(data) if data else {}
        if document is None:
            raise self._not_the_api()
        return document

    def _not_the_api(self) -> AppError:
        message = f"what answers at {self._url} is not the API: is the address right?"
        return AppError(message, code="not_the_api")

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        repeatable: bool,
    ) -> bytes:
        """Return the body of an answer that is good."""
        retries = urllib3.Retry(
            total=None,
            connect=_CONNECTS,
            read=_TRIES if repeatable else 0,
            status=_TRIES,
            allowed_methods=None,
            status_forcelist=_BUSY,
            raise_on_status=False,
            backoff_factor=0.2,
        )
        try:
            answer = self._pool.request(
                method,
                self._url + path,
                body=body,
                headers={**self._headers, **headers},
                retries=retries,
                redirect=False,
            )
        except HTTPError as error:
            raise Unavailable(f"no answer from {self._url}: {_reason(error)}") from error
        return read_answer(answer.status, answer.data)


def _query(members: Mapping[str, object]) -> str:
    given = {key: value for key, value in members.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def read_answer(status: int, data: bytes) -> bytes:
    """Return the body of an answer that is good; raises Refused, Unavailable for any other."""
    if status < 300:
        return data
    document = _document(data) or {}
    if status in _AWAY:
        raise Unavailable(str(document.get("detail") or f"the API is away (an answer {status})"))
    not_ours = f"an answer {status} that is not the API's: is the address right?"
    detail = str(document.get("detail") or not_ours)
    code = str(document.get("type", "")).rpartition(":")[2]
    errors = document.get("errors", [])
    raise Refused(detail, code=code or "refused", status=status, errors=errors)


def _document(data: bytes) -> dict[str, Any] | None:
    """Return a JSON object, None for anything else: not the API, or something in front of it."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _reason(error: HTTPError) -> str:
    """Return the cause in one line: urllib3 wraps it in the story of its tries."""
    cause = getattr(error, "reason", None) or error
    return _CONNECTION.sub("", str(cause))
