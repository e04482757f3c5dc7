"""A collector of traces: it takes OTLP over HTTP and keeps what it is told."""

import gzip
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.integration.actions.receivers import Receiver, a_receiver


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A span as it arrived; ids are hexadecimal, ``links`` are ids of traces and spans."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    began_at: int
    ended_at: int
    failed: bool
    attributes: dict
    links: list


class Collector:
    """What a receiver of traces has been told so far."""

    def __init__(self, receiver):
        self.receiver = receiver

    @property
    def url(self):
        """What OTEL_EXPORTER_OTLP_ENDPOINT has to be."""
        return self.receiver.url

    def spans(self):
        """Return the spans that have arrived, in their order."""
        return list(chain.from_iterable(_read(each) for each in list(self.receiver.requests)))

    def trace(self, trace_id):
        """Return the spans of a trace by their names; of one name the last."""
        return {span.name: span for span in self.spans() if span.trace_id == trace_id}

    def named(self, name):
        """Return the spans of a name."""
        return [span for span in self.spans() if span.name == name]


@contextmanager
def a_collector(*, receiver=None):
    """Run a collector on a free port of this machine."""
    with a_receiver(receiver=receiver or Receiver()) as running:
        yield Collector(running)


def _read(request):
    assert (request.method, request.target) == ("POST", "/v1/traces")
    assert request.headers["content-type"] == "application/x-protobuf"
    is_packed = request.headers.get("content-encoding") == "gzip"
    body = gzip.decompress(request.body) if is_packed else request.body
    for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(sent.resource.attributes)["service.name"]
        for scope in sent.scope_spans:
            yield from (_told(service, span) for span in scope.spans)


def _told(service, span):
    return Told(
        service=service,
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        began_at=span.start_time_unix_nano,
        ended_at=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes=_values(span.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


def _values(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
