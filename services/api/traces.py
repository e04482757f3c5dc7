"""A span for each request, from the route on; it goes on with the caller's trace if they sent one.

What a request makes stands in traces of its own, which it points at, and so is what its address
names.
"""

from collections.abc import Mapping
from uuid import UUID

from flask import Response, g, request

from shared.observability import tracing
from shared.observability.trace_ids import Row, RowKind

_NAMED: Mapping[str, RowKind] = {
    "run_id": "trigger_run",
    "action_id": "scheduled_action",
    "change_id": "staged_change",
    "execution_id": "workflow_execution",
}


def begin_request(*, method: str, route: str) -> None:
    """Begin the span of the present request, and make it the thread's current one."""
    if not tracing.is_on():
        return
    span = tracing.answering(
        f"{method} {route}",
        headers=_told_by_caller(),
        attributes={
            "http.request.method": method,
            "http.route": route,
            "url.scheme": request.scheme,
        },
    )
    g.span = span.__enter__()


def _told_by_caller() -> dict[str, str]:
    names = ("traceparent", "tracestate")
    return {name: request.headers[name] for name in names if name in request.headers}


def tell_answer(response: Response) -> None:
    """Tell of the answer, and whose request it was."""
    span = tracing.current()
    span.set({"http.response.status_code": response.status_code})
    if response.status_code >= 500:
        span.fail(str(response.status_code))
    elif response.status_code >= 400:
        span.forget_made()
    tenant_id: UUID | None = g.get("tenant_id")
    if tenant_id is None:
        return
    span.set({"duebook.tenant_id": str(tenant_id)})
    for name, id in (request.view_args or {}).items():
        if name in _NAMED:
            span.link(Row(tenant_id, _NAMED[name], id))


def end_request() -> None:
    """End the span of the present request, if it has one."""
    span = g.pop("span", None)
    if span is not None:
        span.__exit__(None, None, None)
