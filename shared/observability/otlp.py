"""Spans as OpenTelemetry makes, samples and sends them: the one module that knows its SDK.

They leave from a thread of the SDK's, out of a queue that drops what is too much: a collector that
is slow or away holds up nobody.
"""

import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from typing import Self

import structlog
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.re import parse_env_headers

from shared.observability.spans import NOTHING, Attributes, Span, SpanKind
from shared.observability.trace_ids import Place, Row, place_of

_log = structlog.get_logger()

_OURS = contexts.create_key("duebook-span")
_W3C = TraceContextTextMapPropagator()
_KINDS: Mapping[SpanKind, trace.SpanKind] = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
    "producer": trace.SpanKind.PRODUCER,
    "consumer": trace.SpanKind.CONSUMER,
}


class Tracer:
    """Makes the spans of a process and sends them to ``url``."""

    def __init__(self, url: str, *, headers: str | None, service: str) -> None:
        """``headers``: what the collector wants to be told, ``name=value,…``."""
        told = None if headers is None else parse_env_headers(headers, liberal=True)
        exporter = _Exporter(OTLPSpanExporter(endpoint=url, headers=told))
        self._ids = _Ids()
        self._provider = TracerProvider(
            id_generator=self._ids, resource=_resource(service), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("duebook", version("duebook"))

    def span(
        self,
        name: str,
        *,
        kind: SpanKind,
        under: Place | None,
        attributes: Attributes,
        kept_open: bool = False,
    ) -> Span:
        """Return a span that begins now."""
        begun = self._tracer.start_span(
            name,
            context=None if under is None else self._beneath(under),
            kind=_KINDS[kind],
            attributes=attributes,
        )
        return _LiveSpan(self, begun, kept_open=kept_open)

    def answering(self, name: str, *, headers: Mapping[str, str], attributes: Attributes) -> Span:
        """Return the span of a request that we answer."""
        begun = self._tracer.start_span(
            name,
            context=_W3C.extract(headers, context=contexts.Context()),
            kind=trace.SpanKind.SERVER,
            attributes=attributes,
        )
        return _LiveSpan(self, begun, kept_open=False)

    def tell(
        self,
        name: str,
        *,
        of: Place,
        under: Place | None,
        began_at: datetime,
        ended_at: datetime,
        attributes: Attributes,
        links: Sequence[Row],
    ) -> None:
        """Tell a span that is over."""
        with self._ids.given(of):
            told = self._tracer.start_span(
                name,
                context=contexts.Context() if under is None else self._beneath(under),
                attributes=attributes,
                links=[self.link_to(row) for row in links],
                start_time=_nanoseconds(began_at),
            )
        told.end(_nanoseconds(ended_at))

    def begin_trace_of(self, row: Row, name: str, *, maker: trace.SpanContext) -> trace.Span:
        """Begin a span in a row's trace that points at whoever makes the row."""
        return self._tracer.start_span(
            name, context=self._beneath(place_of(row)), links=[trace.Link(maker)]
        )

    def link_to(self, row: Row) -> trace.Link:
        """Return what points at the trace of a row."""
        return trace.Link(self._context_of(place_of(row)))

    def current(self) -> Span:
        """Return the current span of the calling thread."""
        found = contexts.get_value(_OURS)
        return found if isinstance(found, _LiveSpan) else NOTHING

    def current_ids(self) -> Mapping[str, str]:
        """Return the ids of the current span, none without one."""
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return {}
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    def close(self, *, seconds: float) -> None:
        """Send what is left, for so long at most; on a thread that nobody has to wait for."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(seconds)

    def _beneath(self, place: Place) -> contexts.Context:
        parent = trace.NonRecordingSpan(self._context_of(place))
        return trace.set_span_in_context(parent, contexts.Context())

    def _context_of(self, place: Place) -> trace.SpanContext:
        """Return what other processes tell of the place: the sampler decides alike in each."""
        # As for a root: not None, which would mean whatever span is the current one.
        nobody = contexts.Context()
        sampled = self._provider.sampler.should_sample(nobody, place.trace_id, "").decision
        is_sent = sampled is Decision.RECORD_AND_SAMPLE
        flags = trace.TraceFlags.SAMPLED if is_sent else trace.TraceFlags.DEFAULT
        return trace.SpanContext(
            place.trace_id, place.span_id, is_remote=True, trace_flags=trace.TraceFlags(flags)
        )


class _LiveSpan(Span):
    """A span of the SDK, in our terms."""

    __slots__ = ("_failed", "_kept_open", "_made", "_span", "_token", "_tracer")

    def __init__(self, tracer: Tracer, span: trace.Span, *, kept_open: bool) -> None:
        self._tracer = tracer
        self._span = span
        self._kept_open = kept_open
        self._failed = False
        self._made: list[tuple[Row, trace.Span]] = []

    def __enter__(self) -> Self:
        context = trace.set_span_in_context(self._span)
        self._token = contexts.attach(contexts.set_value(_OURS, self, context))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        contexts.detach(self._token)
        if kind is not None and not self._failed:
            self.fail(kind.__name__)
        if not self._kept_open:
            self.end()

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        # Its message may repeat what a stranger answered.
        self._failed = True
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(trace.StatusCode.ERROR)

    def link(self, row: Row) -> None:
        self._span.add_link(self._tracer.link_to(row).context)

    def made(self, name: str, row: Row) -> None:
        maker = self._span.get_span_context()
        self._made.append((row, self._tracer.begin_trace_of(row, name, maker=maker)))

    def forget_made(self, *, but: Container[object] = ()) -> None:
        self._made = [(row, span) for row, span in self._made if row.id in but]

    def made_rows(self) -> Mapping[object, Row]:
        return {row.id: row for row, _ in self._made}

    def headers(self) -> Mapping[str, str]:
        told: dict[str, str] = {}
        _W3C.inject(told, trace.set_span_in_context(self._span))
        return told

    def end(self) -> None:
        for row, span in () if self._failed else self._made:
            self.link(row)
            span.end()
        self._span.end()


class _Ids(IdGenerator):
    """Random ids, but for a span that stands for a row."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._given = threading.local()

    @contextmanager
    def given(self, place: Place) -> Iterator[None]:
        """Give the span that this thread begins in the block the ids of a place."""
        self._given.place = place
        try:
            yield
        finally:
            del self._given.place

    def generate_trace_id(self) -> int:
        place: Place | None = getattr(self._given, "place", None)
        return self._random.generate_trace_id() if place is None else place.trace_id

    def generate_span_id(self) -> int:
        place: Place | None = getattr(self._given, "place", None)
        return self._random.generate_span_id() if place is None else place.span_id


class _Exporter(SpanExporter):
    """Tells in one line that spans are not taken any more, and in one that they are again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._is_taken = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        is_taken = result is SpanExportResult.SUCCESS
        if is_taken != self._is_taken:
            self._is_taken = is_taken
            if is_taken:
                _log.info("traces_taken_again")
            else:
                _log.warning("traces_not_taken")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _resource(service: str) -> Resource:
    """Return who sends: the environment's word (OTEL_SERVICE_NAME, …) before ours."""
    told = Resource.create()
    ours = {"service.namespace": "duebook", "service.version": version("duebook")}
    if str(told.attributes["service.name"]).startswith("unknown_service"):
        told = told.merge(Resource({"service.name": f"duebook-{service}"}))
    return Resource(ours).merge(told)


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1_000
