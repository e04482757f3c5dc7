"""Traces, if somebody wants them: what each process does, as spans that are sent to a collector.

By default there are none: every function here then returns at once, and OpenTelemetry, which
``otlp`` is made of, is not even imported.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from shared.errors import InvalidInput
from shared.observability.spans import NOTHING, Attributes, Span, SpanKind
from shared.observability.trace_ids import Place, Row
from shared.settings import Service, Settings, traces_url

if TYPE_CHECKING:
    from shared.observability.otlp import Tracer

_FLUSH_SECONDS = 3.0

_tracer: "Tracer | None" = None


def start(settings: Settings, *, service: Service) -> None:
    """Send traces from now on, if the settings say where to: in the process that sends them.

    Its thread would not survive a fork. Raises InvalidInput ``settings_invalid`` for what only the
    SDK reads.
    """
    global _tracer
    url = traces_url(settings)
    if url is None:
        return
    from shared.observability.otlp import Tracer

    headers = settings.otel_exporter_otlp_headers
    told = None if headers is None else headers.reveal()
    try:
        _tracer = Tracer(url, headers=told, service=service)
    except ValueError as error:
        message = f"settings are not valid:\n  OpenTelemetry refuses one of its own: {error}"
        raise InvalidInput(message, code="settings_invalid") from error


def stop(*, seconds: float = _FLUSH_SECONDS) -> None:
    """Send what is left and make no further spans; give up after ``seconds``."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.close(seconds=seconds)


def is_on() -> bool:
    """Whether there are traces: what tells of a span costs something to put together."""
    return _tracer is not None


def span(
    name: str,
    *,
    kind: SpanKind = "internal",
    under: Place | None = None,
    attributes: Attributes | None = None,
    kept_open: bool = False,
) -> Span:
    """Return a span that begins now: ``under`` that of a row, else under the current one."""
    if _tracer is None:
        return NOTHING
    return _tracer.span(
        name, kind=kind, under=under, attributes=attributes or {}, kept_open=kept_open
    )


def answering(name: str, *, headers: Mapping[str, str], attributes: Attributes) -> Span:
    """Return the span of a request that we answer; it goes on with the trace that these tell."""
    if _tracer is None:
        return NOTHING
    return _tracer.answering(name, headers=headers, attributes=attributes)


def tell(
    name: str,
    *,
    of: Place,
    under: Place | None = None,
    began_at: datetime,
    ended_at: datetime,
    attributes: Attributes,
    links: Sequence[Row] = (),
) -> None:
    """Tell a span that is over: the one that stands for a row, at the root unless ``under`` one."""
    if _tracer is not None:
        _tracer.tell(
            name,
            of=of,
            under=under,
            began_at=began_at,
            ended_at=ended_at,
            attributes=attributes,
            links=links,
        )


def current() -> Span:
    """Return the span whose block the calling thread is in."""
    return NOTHING if _tracer is None else _tracer.current()


def current_ids() -> Mapping[str, str]:
    """Return what a line of the log says of the current span: ``trace_id`` and ``span_id``."""
    return {} if _tracer is None else _tracer.current_ids()
