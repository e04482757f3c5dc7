"""One outgoing HTTP call within its limits, and what its answer means for a run."""

import http.client
import re
import ssl
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from shared.actions.addresses import AddressPolicy
from shared.actions.connections import Connection, Connections, LookUp, Refused, system_look_up
from shared.actions.deadlines import Deadlines
from shared.actions.failures import ActionFailed
from shared.actions.urls import Url
from shared.observability import tracing

MAX_ANSWER_BYTES = 64 * 1024
MAX_RETRY_AFTER_SECONDS = 24 * 3600.0

_TRANSIENT = frozenset({408, 425, 429})
_EXCERPT = 200
_SECONDS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to send. ``trusted``: the operator named the destination, it is not judged."""

    method: str
    url: Url
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; ``body`` has at most its first 64 KiB."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpCaller:
    """Sends calls; one for all threads of a process.

    No redirects, no proxy, no decompression. The certificate must be valid for the URL's host.
    """

    def __init__(
        self,
        *,
        policy: AddressPolicy,
        ports: Container[int],
        user_agent: str,
        look_up: LookUp = system_look_up,
    ) -> None:
        self._connections = Connections(policy=policy, ports=ports, look_up=look_up)
        self._deadlines = Deadlines()
        self._user_agent = user_agent

    def send(self, call: Call, *, deadline_seconds: float) -> Answer:
        """Return the answer, whatever its status.

        Raises ActionFailed: permanent for a destination that may not be called, transient when
        there is no whole answer within the time, which counts from before the look-up.
        """
        if not tracing.is_on():
            return self._send(call, deadline_seconds)
        with tracing.span(call.method, kind="client", attributes=_told(call)) as span:
            # What the author set wins: headers of the trace go with it or not at all.
            if not any(name.lower() == "traceparent" for name in call.headers):
                call = replace(call, headers={**call.headers, **span.headers()})
            try:
                answer = self._send(call, deadline_seconds)
            except ActionFailed as error:
                span.fail(type(error.__cause__ or error).__name__)
                raise
            span.set({"http.response.status_code": answer.status})
            if answer.status >= 400:
                span.fail(str(answer.status))
            return answer

    def _send(self, call: Call, deadline_seconds: float) -> Answer:
        with self._deadlines.limit(deadline_seconds) as deadline:
            connection = None
            try:
                connection = self._connections.take(
                    call.url, deadline=deadline, trusted=call.trusted
                )
                answer, reusable = self._exchange(connection, call)
            except Refused as error:
                raise ActionFailed(str(error)) from error
            except (OSError, http.client.HTTPException) as error:
                if connection is not None:
                    connection.close()
                late = deadline.expired or isinstance(error, TimeoutError)
                raise _no_answer(
                    call.url,
                    deadline_seconds if late else None,
                    error,
                    sent=connection is not None,
                ) from error
        # Outside of the limit: from here on nobody shuts the socket any more.
        if deadline.expired:
            connection.close()
            raise _no_answer(call.url, deadline_seconds, None, sent=True)
        if reusable:
            self._connections.keep(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """Close kept connections and end the thread behind the time limits."""
        self._connections.close()
        self._deadlines.close()

    def _exchange(self, connection: Connection, call: Call) -> tuple[Answer, bool]:
        headers = {
            "Host": call.url.host_header,
            "User-Agent": self._user_agent,
            "Accept-Encoding": "identity",
            **call.headers,
        }
        connection.request(call.method, call.url.target, body=call.body, headers=headers)
        with connection.getresponse() as response:
            body = _read(response)
            whole = response.isclosed()
            answer = Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=body,
            )
        # An interim status means that the real answer is still to come.
        return answer, whole and not response.will_close and answer.status >= 200


def _told(call: Call) -> dict[str, str | int]:
    """Return what traces tell of a call: nothing of its query, and no value of a token."""
    url = call.url
    path = url.target.partition("?")[0]
    full = {"url.full": f"{url.scheme}://{url.host_header}{path}"}
    return {
        "http.request.method": call.method,
        "server.address": url.host,
        "server.port": url.port,
        **(full if url.template is None else {"url.template": url.template.partition("?")[0]}),
    }


def check_answer(answer: Answer, *, now: datetime, expected: tuple[int, ...] | None = None) -> None:
    """Raise ActionFailed unless the status is 2xx, or one of ``expected`` when that is given."""
    status = answer.status
    if status in expected if expected is not None else 200 <= status <= 299:
        return
    transient = status in _TRANSIENT or 500 <= status <= 599
    raise ActionFailed(
        f"answered {status}{_excerpt(answer.body)}",
        transient=transient,
        retry_after=retry_after(answer.headers.get("retry-after"), now=now) if transient else None,
        result={"status": status},
    )


def retry_after(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds to wait that a Retry-After header asks for, at most a day; None: nothing.

    Both forms are read: seconds, and an HTTP date, which ``now`` is compared with.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        until = _http_date(text)
        if until is None:
            return None
        seconds = (until - now).total_seconds()
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _http_date(text: str) -> datetime | None:
    if len(text) > 40:
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _read(response: http.client.HTTPResponse) -> bytes:
    """Return the first 64 KiB of the body. Raises IncompleteRead when it breaks off before."""
    if not response.chunked:
        body = response.read(MAX_ANSWER_BYTES)
        if len(body) < MAX_ANSWER_BYTES and response.length:
            raise http.client.IncompleteRead(body, response.length)
        return body
    # Piece by piece: read() trusts the peer's chunk size, and a negative one reads without end.
    body = b""
    while len(body) < MAX_ANSWER_BYTES:
        piece = response.read1(MAX_ANSWER_BYTES - len(body))
        if not piece:
            break
        body += piece
    return body[:MAX_ANSWER_BYTES]


def _excerpt(body: bytes) -> str:
    text = " ".join(body[: 4 * _EXCERPT].decode("utf-8", errors="replace").split())
    return f": {text[:_EXCERPT]}" if text else ""


def _no_answer(
    url: Url, late_after: float | None, error: Exception | None, *, sent: bool
) -> ActionFailed:
    """Return the failure; once there was a connection, the receiver may have got the request."""
    return ActionFailed(_why_no_answer(url, late_after, error), transient=True, unknown=sent)


def _why_no_answer(url: Url, late_after: float | None, error: Exception | None) -> str:
    if late_after is not None:
        return f"{url.host} gave no answer in {late_after:g} s"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", "") or error.reason or "no TLS"
        return f"TLS with {url.host} failed: {reason}"
    if isinstance(error, OSError):
        reason = error.strerror or "it was closed without an answer"
        return f"the connection to {url.host} failed: {reason}"
    return f"{url.host} gave no readable answer"
