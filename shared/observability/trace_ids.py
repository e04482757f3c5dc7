"""Which trace a row belongs to: derived from its key, so that every process says the same.

Nothing has to be stored or sent for it (docs/decisions/0034-derived-traces.md).
"""

import hashlib
from typing import Literal, NamedTuple
from uuid import UUID

RowKind = Literal["trigger_run", "scheduled_action", "staged_change", "workflow_execution"]


class Row(NamedTuple):
    """A row of one of the tables that have traces, by its key."""

    tenant_id: UUID
    kind: RowKind
    id: int | UUID


class Place(NamedTuple):
    """Where a row stands in traces: the trace, and the span in it that is the row's own."""

    trace_id: int
    span_id: int


def place_of(row: Row) -> Place:
    """Return the trace of a row, and the span at its root."""
    digest = hashlib.sha256(f"{row.tenant_id}:{row.kind}:{row.id}".encode()).digest()
    return Place(trace_id=int.from_bytes(digest[:16]), span_id=int.from_bytes(digest[16:24]))


def trace_id_of(row: Row) -> str:
    """Return the id of a row's trace: 32 hex digits."""
    return f"{place_of(row).trace_id:032x}"


def step_of(action: Row, execution: Row) -> Place:
    """Return the place of a step: all steps of an execution stand in its trace."""
    return Place(trace_id=place_of(execution).trace_id, span_id=place_of(action).span_id)
