"""What a span takes and tells. This one is not there: it is what everybody is given without traces.

``otlp`` has those that are.
"""

from collections.abc import Container, Mapping
from typing import Literal, Self

from shared.observability.trace_ids import Row

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
Attributes = Mapping[str, str | int]
"""By name; ids, counts and outcomes, never what rows and requests contain."""


class Span:
    """Something that takes its time; within its block it is the current one of the thread.

    It ends with the block, as failed if that raises; one that is ``kept_open`` ends by ``end``, or
    is never told.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        return None

    def set(self, attributes: Attributes) -> None:
        """Tell more of it."""

    def fail(self, error_type: str) -> None:
        """Say that it does not end well, and what kind of failure it is."""

    def link(self, row: Row) -> None:
        """Point at the trace of a row."""

    def made(self, name: str, row: Row) -> None:
        """Note that a row is being made.

        If this span ends well, one of that name, from now until then, stands in the row's trace,
        and each points at the other.
        """

    def forget_made(self, *, but: Container[object] = ()) -> None:
        """Take back what was noted as made, but for rows with these ids."""

    def made_rows(self) -> Mapping[object, Row]:
        """Return what was noted as made, by id."""
        return {}

    def headers(self) -> Mapping[str, str]:
        """Return the headers by which whoever is called goes on with the trace."""
        return {}

    def end(self) -> None:
        """End a span that was kept open behind its block."""


NOTHING = Span()
